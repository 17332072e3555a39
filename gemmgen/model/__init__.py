"""Equations that predict what a plan will use. They are numbered expressions and do no I/O."""
