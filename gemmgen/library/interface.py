"""The number of the C interface, which the header, the manifest and the Python module of a library state."""

ABI = 2
"""Of the C interface: it changes where a program must be compiled again."""
