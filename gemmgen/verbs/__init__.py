"""Verbs of the house. Each file registers its own; what they need is imported when they run."""
