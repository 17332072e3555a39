"""Equations that predict what a plan will use. Symbolic, numbered, no I/O."""
