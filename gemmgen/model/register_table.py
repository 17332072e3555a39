"""Coefficients of the register model. Written by bench/fit_registers.py; do not edit."""

COMPILER = "NVRTC"
KERNELS = 0  # compiled and fitted to

# By kind of loop; the terms in the order of registers.TERMS.
SLOPES = {
    "rolled": (1.0, 0.7, 0.7, 0.0, 0.0, -9.0),
    "ahead": (1.16, 0.5, 0.5, 0.5, 7.0, 0.0),
    "buffered": (1.0, 2.2, 2.2, 1.0, 0.0, 0.0),
}

# By generation, for each kind of loop.
OFFSETS = {
    80: (30.0, 12.0, 22.0),
}

# Demand over budget from which a kernel is taken to spill, for each kind of loop.
SQUEEZE = (0.0, 0.0, 5.0)
