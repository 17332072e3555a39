"""The designs of main kernels: each a package here, or an entry point of the group `gemmgen.designs`, that has a DESIGN.

What a design must have, `Design` tells; docs/add-a-design.md shows one being added.
"""

from __future__ import annotations

import copyreg
import pkgutil
from functools import cache
from importlib import import_module

from gemmgen.catalog.brought import with_brought
from gemmgen.catalog.fragment import FRAGMENTS, Fragment
from gemmgen.catalog.scheme import Sums
from gemmgen.decisions import SHARED, Decision
from gemmgen.designs.design import Asked, Choices, Design, Hints, Way
from gemmgen.errors import GemmgenError
from gemmgen.kinds import GEMM, Kind

__all__ = ["Asked", "Choices", "Design", "Hints", "Way", "all_decisions", "all_designs", "design_called", "designs_of", "owner_of", "owners_of"]

ENTRY_POINTS = "gemmgen.designs"


@cache
def all_designs() -> tuple[Design, ...]:
    """Those of this package by name, then those that other packages bring.

    Raises:
        GemmgenError: two have one name.
    """
    here = [import_module(f"{__name__}.{one.name}").DESIGN for one in pkgutil.iter_modules(__path__) if one.ispkg]
    found = tuple(with_brought(here, ENTRY_POINTS, "designs", "your design").values())
    for one in found:  # sent to another process by name: it has the same designs, and some of their refusals are functions that cannot be sent
        copyreg.pickle(type(one), lambda design: (design_called, (design.name,)))
    return found


@cache
def all_decisions() -> tuple[Decision, ...]:
    """The decisions of all designs, the shared ones first, with every design's words.

    Raises:
        GemmgenError: two designs declare one name otherwise.
    """
    shared = (one.with_words(tuple(dict.fromkeys(word for design in all_designs() for word in design.words.get(one.name, ())))) for one in SHARED)
    found = tuple(dict.fromkeys((*shared, *(one for design in all_designs() for one in design.own))))  # designs may share one
    names = [one.name for one in found]
    if twice := {name for name in names if names.count(name) > 1}:
        raise GemmgenError("designs", "two declare decisions of one name", got=", ".join(sorted(twice)), needs="one declaration, which both have",
                           remedy="another name in your design, or the other's Decision")
    return found


def designs_of(fragment: Fragment, kind: Kind = GEMM, family: Sums = "residual chain") -> tuple[Design, ...]:
    """The designs that kernels with this fragment may be of; the usual one first.

    Args:
        family: of the scheme, as its recombination says it.

    Returns:
        None where the fragment has a design, and none for such problems or schemes.

    Raises:
        GemmgenError: none serves it.
    """
    served = tuple(one for one in all_designs() if one.serves(fragment))
    found = tuple(one.of(kind) for one in served if one.computes(kind) and family == one.family)
    if not served:
        raise GemmgenError(f"fragment {fragment.name}", "has no design", needs="a design that serves it", remedy="`serves` of your design")
    return found


def design_called(name: str, kind: Kind = GEMM) -> Design:
    """The design of that name, which there is, for products of a kind."""
    return next(one for one in all_designs() if one.name == name).of(kind)


def owner_of(decision: Decision, value: object) -> str:
    """A policy whose kernels have this value of a decision: of the first design that declares it."""
    designs = [one for one in all_designs() if decision in one.own or any(word.name == value for word in one.words.get(decision.name, ()))]
    return next((row.policy for row in FRAGMENTS.rows() if designs and designs[0].serves(row)), "")


def owners_of(kind: Kind, family: Sums = "residual chain") -> tuple[str, ...]:
    """The policies that have kernels for products of a kind and schemes of a family."""
    serving = [one for one in all_designs() if one.computes(kind) and family == one.family]
    return tuple(dict.fromkeys(row.policy for row in FRAGMENTS.rows() if any(one.serves(row) for one in serving)))
