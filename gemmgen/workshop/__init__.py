"""What studies kernels, races them, brings GPUs up and runs programs on them. It imports the house, and the house never imports it."""
