"""A dispatch table of what a race of libraries' own kernels measured, which a library's file takes as `[[use]] table`.

    python bench/library.py products general --table general_h200.json

A row of a race is one product of one layout: `layout`, `m`, `n`, `k`, `products`, and by kernel's name `measured` and `predicted`, in seconds.
A kernel that was predicted to be far too slow has no measured time there. Where the vendor's SGEMM raced, `sgemm` and `sgemm_predicted` are its seconds,
which decide whether a preload library takes the product.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gemmgen import __version__
from gemmgen.catalog.table import parse
from gemmgen.errors import InfeasibleSpec, SpecError
from gemmgen.kinds import STRIDED
from gemmgen.library.dispatch import Estimate, Table, estimated
from gemmgen.solve import solve
from gemmgen.spec import loads

NEAR = 1.1
"""Times the fastest kernel of a product: what comes nowhere so near to it is left out of the table."""
TURNS = 40
"""How often estimates are fitted anew, with more weight where they took a kernel that was not the fastest, or where the vendor's SGEMM is."""


class Raced:
    """The kernels of one layout at its products.

    Attributes:
        names: of the kernels.
        sizes: [products, 4] of m, n, k and products.
        measured, seconds: [kernels, products], NaN where nothing was measured; the same with the prediction in its place, mended by the kernel's own mean
            and no less than the fastest measured time. inf where a kernel does not serve a product.
        vendor: [2, products] the seconds of the vendor's SGEMM, measured and predicted, inf where it did not race.
    """

    def __init__(self, rows: Sequence[Mapping[str, Any]]):
        self.names = sorted({name for row in rows for name in row["predicted"]})
        self.sizes = np.array([[row[key] for key in ("m", "n", "k", "products")] for row in rows], float)
        self.measured = np.array([[row["measured"].get(name, math.nan) for row in rows] for name in self.names])
        predicted = np.array([[row["predicted"].get(name, math.nan) for row in rows] for name in self.names])
        logs = np.log(self.measured / predicted)
        known = np.isfinite(logs)
        leaning = np.where(known, logs, 0).sum(axis=1) / np.maximum(known.sum(axis=1), 1)
        whole = np.where(known, self.measured, np.maximum(predicted * np.exp(leaning)[:, None], self.best))
        self.seconds = np.where(np.isfinite(whole), whole, np.inf)
        self.vendor = np.array([[row.get(key, math.inf) for row in rows] for key in ("sgemm", "sgemm_predicted")])

    @property
    def best(self) -> np.ndarray:
        """[products] seconds of the fastest measured kernel."""
        return np.nanmin(self.measured, axis=0)

    def near(self) -> list[int]:
        """The kernels that some product has among its fastest."""
        return [at for at in range(len(self.names)) if (self.measured[at] <= NEAR * self.best).any()]

    def estimates(self, kernels: Sequence[Mapping[str, Any]]) -> tuple[list[Estimate], np.ndarray]:
        """(each kernel's estimate, [products] how many times the fastest's what the least estimate takes needs).

        Estimates decide twice: a library takes the kernel of the least one, a preload library passes the product on where the vendor's is less. Both count.

        Args:
            kernels: of a library's manifest, in the order of `names`.
        """
        # As `choice.weights` has it; kernels of batches and of single products are told apart, as neither serves the other's well.
        heavy, strided = self.sizes.prod(axis=1) ** (1 / 6), np.array([_strided(one) for one in kernels])
        weight = heavy * (self.best / self.seconds) ** 2
        found: list[Estimate] = []
        cost = {False: math.inf, True: math.inf}
        for _ in range(TURNS):
            tried = [self._fitted(at, kernels[at], weight[at]) for at in range(len(self.names))]
            over, taken, passed = self._over(tried, kernels)
            found = found or list(tried)
            for together, columns in ((False, self.sizes[:, 3] == 1), (True, self.sizes[:, 3] > 1)):
                if (now := float(np.log(over[columns] * passed[columns]) @ heavy[columns])) < cost[together]:
                    cost[together] = now
                    for at in np.flatnonzero(strided == together):
                        found[at] = tried[at]
            for at in np.flatnonzero(over > 1.01):
                weight[[taken[at], int(np.nanargmin(self.measured[:, at]))], at] *= 1 + over[at]
            for at in np.flatnonzero(passed > 1.01):
                weight[taken[at], at] *= 1 + passed[at]
        return found, self._over(found, kernels)[0]

    def _over(self, estimates: Sequence[Estimate], kernels: Sequence[Mapping[str, Any]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """([products] times the fastest's of what the least estimate takes, [products] the kernel that it takes, [products] times the faster's of it and the
        vendor's SGEMM, of which the smaller prediction is taken)."""
        told = self.told(estimates, kernels)
        taken = told.argmin(axis=0)
        own, least, (vendor, predicted) = self.seconds[taken, np.arange(len(taken))], told.min(axis=0), self.vendor
        return own / self.best, taken, np.where(least < predicted, own, vendor) / np.minimum(own, vendor)

    def told(self, estimates: Sequence[Estimate], kernels: Sequence[Mapping[str, Any]]) -> np.ndarray:
        """[kernels, products] seconds by estimates, inf where a kernel does not serve a product."""
        found = np.array([
            one.seconds(*self.sizes.T) if _strided(kernel) else one.seconds(*self.sizes.T[:3]) * self.sizes[:, 3] for one, kernel in zip(estimates, kernels)
        ])
        return np.where(np.isfinite(self.seconds), found, np.inf)

    def _fitted(self, at: int, kernel: Mapping[str, Any], weight: np.ndarray) -> Estimate:
        served, old = np.isfinite(self.seconds[at]), kernel["estimate"]
        sizes, seconds = self.sizes[served], self.seconds[at][served]
        if not _strided(kernel):  # whose launches take one product each
            sizes, seconds = sizes[:, :3], seconds / sizes[:, 3]
        return estimated(seconds, sizes, weight[served], old["tile"], old["slices"], old["sms"])


def _strided(kernel: Mapping[str, Any]) -> bool:
    return kernel["spec"].get("problem", {}).get("kind") == STRIDED.name


def table(
    manifests: Sequence[Mapping[str, Any]], rows: Sequence[Mapping[str, Any]], title: str, stand_for: Sequence[str] = (),
) -> tuple[Table, dict[str, np.ndarray]]:
    """The table of a race, and by layout how many times the fastest kernel's time each product takes by it.

    Args:
        manifests: of the libraries whose kernels raced.
        rows: of the race.
        title: which race it was.
        stand_for: further layouts, which take the kernels and times of the first one that raced, as far as those kernels have them.

    Raises:
        SpecError: a kernel of the race is in no manifest, or its manifest is of a version that tells no specs.
    """
    known = {kernel["kernel"]: kernel for one in manifests for kernel in one["kernels"] if kernel.get("spec")}
    found: dict[str, Any] = {"title": title, "generator": f"gemmgen {__version__}", "kernels": {}, "parts": []}
    costs: dict[str, np.ndarray] = {}
    for layout in dict.fromkeys(row["layout"] for row in rows):
        mine = [row for row in rows if row["layout"] == layout]
        every = Raced(mine)
        near = {every.names[at] for at in every.near()}
        lacking = near - known.keys()
        if lacking:
            raise SpecError("race", "has a kernel whose spec is in no library's manifest", got=min(lacking),
                            needs="manifests of the libraries that raced", remedy="gemmgen library anew, then the race")
        raced = Raced([{**row, **{part: {name: row[part][name] for name in row[part] if name in near} for part in ("measured", "predicted")}} for row in mine])
        kernels = [known[name] for name in raced.names]
        estimates, cost = raced.estimates(kernels)
        for other in (layout, *(() if costs else stand_for)):
            _add_part(found, other, kernels, estimates)
        costs[layout] = cost
    return parse(Table, found, title), costs


def _add_part(found: dict[str, Any], layout: str, kernels: Sequence[Mapping[str, Any]], estimates: Sequence[Estimate]) -> None:
    """A layout's kernels, by number; what has no such layout is left out."""
    labels: dict[str, Mapping[str, Any]] = {}
    for number, (kernel, estimate) in enumerate(zip(kernels, estimates), 1):
        label, spec, identity = f"{layout}_{number}", kernel["spec"], kernel["plan"]
        if layout != kernel["layout"]:
            spec = {**spec, "problem": {**spec.get("problem", {}), "layout": layout}}
            try:
                identity = solve(loads(spec, label)).hash
            except InfeasibleSpec:
                continue
        labels[label] = kernel
        found["kernels"][label] = {
            "name": kernel["kernel"], "identity": identity, "gpu": kernel["gpu"], "layout": layout, "estimate": estimate.model_dump(mode="json"), "spec": spec,
        }
    first = next((label for label, kernel in labels.items() if not _strided(kernel)), None)
    if first:
        found["parts"].append({"gpu": kernels[0]["gpu"], "layout": layout, "decided_by": "estimates", "rules": [{"at_most": {}, "kernel": first}]})
