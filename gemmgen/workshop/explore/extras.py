"""The libraries of `gemmgen[explore]`: imported where they are used, and how it is said that one is not there."""

from __future__ import annotations

import importlib
from types import ModuleType

from gemmgen.errors import GemmgenError


def library(name: str) -> ModuleType:
    """A package of the extra `explore`.

    Raises:
        GemmgenError: it is not installed.
    """
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise GemmgenError("gemmgen.workshop.explore", f"the package {name.partition('.')[0]} cannot be imported", got=str(error),
                           needs="the packages of gemmgen's extra explore", remedy="pip install 'gemmgen[explore]'") from None
