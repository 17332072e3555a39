"""The libraries of `gemmgen[explore]`: imported where they are used, and how it is said that one is not there."""

from __future__ import annotations

from gemmgen.errors import GemmgenError


def missing(library: str, what: str) -> GemmgenError:
    """The refusal where a library of `gemmgen[explore]` is not there."""
    return GemmgenError(library, f"is not installed; {what} needs it", remedy="pip install 'gemmgen[explore]'")
