"""The world as data: rows of TOML or of Python, each of which proves itself when it is loaded."""
