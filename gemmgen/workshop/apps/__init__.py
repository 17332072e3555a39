"""Applications that live on FP32 products, each written once over a `matmul` that it is given: k-means, factorizations, layers of networks.

    gemmgen app kmeans
    gemmgen app lu --size n=8192 --by mixpert1,ootomo --device cuda

    from gemmgen.workshop import apps

    outcome = apps.run("kmeans", by=["ootomo"], sizes={"points": 4096})
    matmul = apps.multiplier("ootomo")          # for a program of your own: matmul(a, b, op="nt", out=c)

An application is a module here with an `APP` (`gemmgen.workshop.apps.problem.App`): its sizes, what it computes with a matmul, and what a user of it looks at.
On a GPU it is timed against the vendor's FP32 in turns; on the emulator a small one is run, and nothing is timed.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gemmgen.workshop.apps.matmul import Matmul
    from gemmgen.workshop.apps.problem import App
    from gemmgen.workshop.apps.race import Outcome

NAMES = ("kmeans", "knn", "graph", "mlp", "lu", "hpl", "qr", "cholesky", "polar", "bert", "llm", "inception")


def find(name: str) -> App:
    """An application by its name.

    Raises:
        UnknownName: there is none.
    """
    from gemmgen.errors import UnknownName

    if name not in NAMES:
        raise UnknownName("gemmgen app", "application", name, NAMES)
    return import_module(f"gemmgen.workshop.apps.{name}").APP


def multiplier(by: str, **options: Any) -> Matmul:
    """What multiplies; arguments as `gemmgen.workshop.apps.matmul.multiplier`."""
    from gemmgen.workshop.apps.matmul import multiplier as made

    return made(by, **options)


def run(name: str, **options: Any) -> Outcome:
    """Run an application; arguments as `gemmgen.workshop.apps.race.run`."""
    from gemmgen.workshop.apps.race import run as ran

    return ran(find(name), **options)
