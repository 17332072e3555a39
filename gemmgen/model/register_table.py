"""Coefficients of the register model. Written by bench/fit_registers.py; do not edit."""

COMPILER = "nvrtc 13.3"

SLOPES = {
    "rolled": {"accumulators": 0.89, "a": 0.13, "b": 0.95, "at_once": 0.0, "words": 0.0},
    "ahead": {"accumulators": 1.16, "a": 0.74, "b": 0.66, "at_once": 15.0, "words": 9.9},
    "buffered": {"accumulators": 1.0, "a": 2.17, "b": 2.76, "at_once": 20.0, "words": -9.6},
}

OFFSETS = {
    80: {"rolled": 65.0, "ahead": 1.0, "buffered": 35.0},
}
