"""Exploring: many kernels from one study, tried, kept, looked at, and boiled down to the few that a program needs."""
