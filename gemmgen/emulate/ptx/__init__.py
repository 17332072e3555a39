"""NVIDIA GPUs: PTX read, decoded and executed."""
