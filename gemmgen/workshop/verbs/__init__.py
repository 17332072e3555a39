"""Verbs of the workshop, as those of the house."""
