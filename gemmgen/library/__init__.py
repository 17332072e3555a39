"""A library of kernels with one C function for every layout, size and GPU."""
