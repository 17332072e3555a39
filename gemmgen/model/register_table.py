"""Coefficients of the register model. Written by bench/fit_registers.py; do not edit."""

COMPILER = 'NVRTC 13.5'
KERNELS = 70  # compiled and fitted to

# By kind of loop, in the order of registers.SLOPE_OF.
SLOPES = {
    "rolled": (0.93, 1.65, 0.78, -7.44, 0.0, 7.94, 0.12, 6.69, -1.58, 7.53),
    "ahead": (1.27, -0.06, 0.66, -0.5, -0.5, -42.7, 0.87, 9.42, 0.0, -0.13),
    "buffered": (0.96, 5.53, 0.88, -34.15, -0.02, -27.94, 1.41, 3.26, 0.0, 7.6),
}

# By generation, for each kind of loop.
OFFSETS = {
    80: (19.4, 7.1, 61.7),
    86: (21.7, 3.4, 61.6),
    89: (11.7, 2.8, 52.6),
    90: (-4.1, 5.2, 53.4),
    100: (0.7, 5.2, 58.9),
    120: (14.9, 5.1, 51.6),
}

# Demand over budget from which a kernel is taken to spill, for each kind of loop.
SQUEEZE = (-23.0, -14.0, -3.0)
