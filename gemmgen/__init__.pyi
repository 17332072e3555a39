"""The public names, for type checkers: `gemmgen/__init__.py` imports them when they are first used."""

from gemmgen import errors as errors
from gemmgen import road as road
from gemmgen.api import matmul as matmul
from gemmgen.road import explain as explain
from gemmgen.road import verify as verify
from gemmgen.workshop.tune import tune as tune

__version__: str
__all__ = ["__version__", "errors", "explain", "matmul", "road", "tune", "verify"]
