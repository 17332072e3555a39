"""Coefficients of the register model. Written by bench/fit_registers.py; do not edit."""

COMPILER = 'NVRTC 13.5'
KERNELS = 552  # compiled and fitted to

# By kind of loop, in the order of registers.SLOPE_OF.
SLOPES = {
    "rolled": (0.97, 1.84, 0.55, -5.0, -0.06, 17.61, -0.23, -0.55, -7.11, 4.28, 1.88),
    "ahead": (1.25, 1.0, 0.16, 2.81, -0.3, 4.17, 0.14, 4.5, 0.0, -5.43, 0.0),
    "buffered": (1.01, 2.36, 2.28, -4.5, -0.18, 8.31, 0.64, 3.45, 0.0, 1.49, 0.0),
}

# By generation, for each kind of loop.
OFFSETS = {
    80: (26.8, 9.3, 18.4),
    86: (26.1, 6.9, 19.3),
    89: (20.9, 3.9, 18.9),
    90: (19.5, 9.3, 25.9),
    100: (22.8, 8.1, 15.1),
    120: (20.3, 3.3, 17.3),
}

# Demand over budget from which a kernel is taken to spill, for each kind of loop.
SQUEEZE = (11.0, -10.0, 12.0)
