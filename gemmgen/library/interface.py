"""The number of the C interface, which the header, the manifest and the Python module of a library state."""

ABI = 3
"""Of the C interface: it changes where a program must be compiled again."""
