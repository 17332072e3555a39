"""Programs of GEMMs, and one description of them, whether they come from a file, a function or an application."""
