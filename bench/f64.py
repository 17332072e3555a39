"""Kernels of FP64 and of complex elements beside the vendor's own product on this GPU, interleaved: times and errors.

    python bench/f64.py specs/kernels/f64_h200.toml --sizes 1024,2048,4096,8192 --schemes residues14,residues15 --rival gemmul8=/opt/GEMMul8,moduli=14
    python bench/f64.py specs/kernels/c64_h200.toml --sizes 1024,2048,4096,8192 --schemes run_scaled,ootomo,residues8
    python bench/f64.py specs/kernels/c128_h200.toml --sizes 1024,2048,4096 --schemes residues14
    python bench/f64.py specs/kernels/f64_h200.toml --c 14336x14336 --sizes 512,1024,2048 --beta 1

The spec's kernel multiplies at every size, with each scheme; with --chosen the kernel is the one that the model chooses at each size. Each contender
multiplies the same matrices in turn, layout nn, alpha 1, and the median of the rounds counts; times are of all launches of a product, and of each
alone, by its role: `norms`, `absmax`, `split` and `gemm`. Complex products count as 8 m n k operations. Errors are relative in the Frobenius norm, against
exact products of a sample of rows and columns: `uniform` is U[-1, 1] (of complex elements both parts), `spread` magnitudes from 2^-20 to 2^20 of either sign,
evenly in their logarithm. With --rival, GEMMul8 multiplies in the same race, FP64 alone.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from gemmgen import road
from gemmgen.batch import problem_of
from gemmgen.build import Built
from gemmgen.catalog.element import Element
from gemmgen.run import arguments
from gemmgen.run.cuda import CudaDevice
from gemmgen.solve.frontier import with_scheme
from gemmgen.timing import gemmul8
from gemmgen.verify.metrics import relative_frobenius
from gemmgen.workshop.apps.matmul import multiplier

Rival = Callable[[Any, Any, Any], None]

SAMPLE = 48
"""Rows and columns whose products are compared with exact ones."""


def launches(built: Built, cupy: Any, a: Any, b: Any, c: Any, beta: float = 0.0) -> dict[str, Callable[[], None]]:
    """The kernel's launches for C = A B + beta C by their roles, in order, and first what must be zero before each product.

    Args:
        a, b, c: [M, K], [K, N] and [M, N]; of a kernel for strided batches [products, ...] of them.
    """
    kind, products = built.plan.kind, a.shape[0] if a.ndim == 3 else 1
    m, n, k = kind.extents(a.shape[-2], b.shape[-1], a.shape[-1])
    device, interface = CudaDevice(built.binary), built.source.interface
    listed = built.plan.design.listed(built.plan, np.array([[m, n, k]] * products), None) if built.plan.launches.packs_products else None
    extents = listed.extents | interface.constants if listed else interface.extents(m, n, k, products)
    work = interface.laid_out(extents)
    space = cupy.empty(work.bytes, cupy.uint8)
    space[: work.zeroed].fill(0)
    memory = {(one.name, at): space[work.offsets[one.name] + at :] for one in interface.buffers for at in interface.places(one)}
    given = {"a": a, "b": b, "c": c, "m": m, "n": n, "k": k, "lda": k, "ldb": n, "ldc": n, "alpha": 1.0, "beta": beta,
             "alpha_i": 0.0, "beta_i": 0.0, "batch": products,
             **{f"stride_{name}": kind.reals * x.shape[-2] * x.shape[-1] for name, x in zip("abc", (a, b, c))}}
    if kind.indirect or listed:
        given |= of_products(built, cupy, listed, given)
    again = any(work.lengths[one.name] for one in interface.buffers if one.zeroed_again)
    return ({"zeros": lambda: space[: work.zeroed].fill(0)} if again else {}) | {
        one.role: device.prepared(one.symbol, one.blocks(extents), one.threads, one.shared_bytes, arguments(one, given, memory), one.overlaps and not again)
        for one in interface.launches
    }


def of_products(built: Built, cupy: Any, listed: Any, given: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a batch whose matrices arrays of pointers locate, or records: of matrices that lie side by side.

    Args:
        listed: what the host lists of a grouped batch; None for arrays of pointers.
    """
    matrices = {name: given[name] for name in "abc"}
    records = np.zeros(given["batch"], problem_of(built.plan.type))
    for name, x in matrices.items():
        records[name] = x.data.ptr + np.arange(len(x), dtype=np.uint64) * x[0].nbytes
    if listed is None:
        return {name: cupy.asarray(records[name]) for name in matrices}
    for name in ("m", "n", "k", "lda", "ldb", "ldc", "alpha", "beta"):
        records[name] = given[name]
    on_device = {"problems": records, "list": listed.rows}
    return {name: cupy.asarray(np.frombuffer(x.tobytes(), np.uint8)) for name, x in on_device.items()} | {
        "listed": len(listed.rows), "turns": listed.extents["turns"],
    }


def seconds(cupy: Any, run: Callable[[], None]) -> float:
    """Of one run, by events."""
    events = cupy.cuda.Event(), cupy.cuda.Event()
    events[0].record()
    run()
    events[1].record()
    events[1].synchronize()
    return cupy.cuda.get_elapsed_time(*events) / 1e3


def medians(cupy: Any, ways: Mapping[str, Callable[[], Any]], rounds: Callable[[float], int]) -> tuple[dict[str, float], int]:
    """(seconds of each way, the median of the rounds in which each runs in turn; how many rounds).

    Args:
        rounds: of the seconds that one takes.
    """
    for run in (*ways.values(), *ways.values()):
        run()
    count = rounds(sum(seconds(cupy, run) for run in ways.values()))
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(count):
        for name, run in ways.items():
            times[name].append(seconds(cupy, run))
    return {name: statistics.median(one) for name, one in times.items()}, count


def drawn(cupy: Any, data: str, shape: tuple[int, ...], element: Element) -> Any:
    if element.reals > 1:
        return (drawn(cupy, data, shape, element.part) + 1j * drawn(cupy, data, shape, element.part)).astype(element.dtype)
    return magnitudes(cupy, data, shape).astype(element.dtype)


def magnitudes(cupy: Any, data: str, shape: tuple[int, ...]) -> Any:
    if data == "uniform":
        return cupy.random.uniform(-1, 1, shape)
    return cupy.where(cupy.random.uniform(size=shape) < 0.5, -1.0, 1.0) * cupy.exp2(cupy.random.uniform(-20, 20, shape))


def race(
    kernels: dict[str, Built], m: int, n: int, k: int, most_seconds: float, rivals: Mapping[str, Rival] = MappingProxyType({}), beta: float = 0.0,
) -> dict[str, Any]:
    """Times and errors of one product, C [m, n]; a rival puts A B into C."""
    import cupy

    cupy.random.seed(k)
    plan = next(iter(kernels.values())).plan
    element = plan.kind.element_of(plan.type)
    a, b = (drawn(cupy, "uniform", shape, element) for shape in ((m, k), (k, n)))
    outputs = {name: cupy.zeros((m, n), element.dtype) for name in (*kernels, "native", *rivals)}
    steps = {name: launches(built, cupy, a, b, outputs[name], beta) for name, built in kernels.items()}
    contenders: dict[str, Callable[[], Any]] = {name: lambda own=own: [step() for step in own.values()] for name, own in steps.items()}
    vendor = multiplier("vendor", type=element.name) if beta else None
    contenders["native"] = (lambda: vendor(a, b, out=outputs["native"], beta=beta)) if vendor else lambda: cupy.matmul(a, b, out=outputs["native"])
    contenders |= {name: lambda name=name: rivals[name](a, b, outputs[name]) for name in rivals}
    contenders |= {f"{name}, {role}": step for name, own in steps.items() for role, step in own.items()}
    times, rounds = medians(cupy, contenders, lambda one: max(5, min(25, int(most_seconds / one))))
    found: dict[str, Any] = {
        "size": k, "operations": 2 * element.reals**2 * m * n * k, "rounds": rounds, "device": cupy.cuda.runtime.getDeviceProperties(0)["name"].decode(),
        "kernels": {name: built.plan.summary for name, built in kernels.items()},
        "workspace_bytes": {name: built.source.interface.workspace(*built.plan.kind.extents(m, n, k)).bytes for name, built in kernels.items()},
        "seconds": times,
        "predicted_seconds": {
            name: float(replace(one.plan, hints=replace(one.plan.hints, **dict(zip("mnk", one.plan.kind.extents(m, n, k))))).model["seconds"])
            for name, one in kernels.items()
        },
        "errors": {},
    }
    rng = np.random.default_rng(k)
    rows, columns = (np.sort(rng.permutation(extent)[:SAMPLE]) for extent in (m, n))
    for data in ("uniform", "spread"):
        if data == "spread":
            a[...], b[...] = (drawn(cupy, data, x.shape, element) for x in (a, b))
        for c in outputs.values():
            c.fill(0)
        for name in outputs:
            contenders[name]()
        want = element.exact(cupy.asnumpy(a[rows]), np.ascontiguousarray(cupy.asnumpy(b[:, columns])))
        sampled = {name: cupy.asnumpy(c[rows][:, columns]) for name, c in outputs.items()}
        found["errors"][data] = {name: relative_frobenius(*(x.view(x.real.dtype) for x in (c, want))) for name, c in sampled.items()}
    return found


def rival(asked: str) -> tuple[str, Rival]:
    """(the name, the product) of GEMMul8 in FP64."""
    import cupy

    told = gemmul8.asked(asked)
    shim = gemmul8.Shim(told.path, told.where, number="double")
    space: list[Any] = []  # the newest alone: the largest size needs most

    def multiply(a: Any, b: Any, c: Any) -> None:
        size = (a.shape[0], b.shape[1], a.shape[1])
        needed = shim.work_bytes(size, told.moduli)
        if not space or space[0].nbytes < needed:
            space[:] = [cupy.empty(needed, cupy.uint8)]
        shim.multiply(size, a.data.ptr, b.data.ptr, c.data.ptr, told.moduli, told.fast, space[0].data.ptr)

    return told.name, multiply


def table(results: list[dict[str, Any]]) -> str:
    """TFLOP/s and errors as Markdown."""
    names = list(results[0]["seconds"])
    lines = ["| TFLOP/s | " + " | ".join(str(one["size"]) for one in results) + " |", "| --- |" + " ---: |" * len(results)]
    lines += ["| `" + name + "` | " + " | ".join(f"{one['operations'] / one['seconds'][name] / 1e12:.1f}" for one in results) + " |" for name in names]
    for data in ("uniform", "spread"):
        lines += ["", f"| error, {data} | " + " | ".join(str(one["size"]) for one in results) + " |", "| --- |" + " ---: |" * len(results)]
        lines += ["| `" + name + "` | " + " | ".join(f"{one['errors'][data][name]:.1e}" for one in results) + " |" for name in results[0]["errors"][data]]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("spec", help="of elements of f64, c64 or c128")
    parser.add_argument("--sizes", default="1024,2048,4096,8192", help="of square products; with --c, their k")
    parser.add_argument("--c", help="rows and columns of C, such as 1536x2816, where products are not square")
    parser.add_argument("--schemes", default="residues14,residues15", help="for such elements")
    parser.add_argument("--beta", type=float, default=0.0, help="what C is multiplied by and added, of f64")
    parser.add_argument("--chosen", action="store_true", help="leave the tile to the model")
    parser.add_argument("--seconds", type=float, default=4.0, help="of each size's rounds")
    parser.add_argument("--rival", action="append", default=[], metavar="gemmul8=PATH", help="as of `gemmgen bench`; may be given several times")
    parser.add_argument("--json", type=Path, help="a file for all figures")
    asked = parser.parse_args()
    kernels = {name: road.build(with_scheme(road.load(asked.spec).laid_out("nn"), name)) for name in asked.schemes.split(",")}
    plan = next(iter(kernels.values())).plan
    if asked.beta and (asked.rival or plan.kind.element_of(plan.type).name != "f64"):
        parser.error("--beta is for f64 without --rival")
    rivals = dict(map(rival, asked.rival))
    results = []
    for size in map(int, asked.sizes.split(",")):
        shape = (*map(int, asked.c.split("x")), size) if asked.c else (size,) * 3
        if asked.chosen:
            problem = {"type": plan.kind.element_of(plan.type).name, **dict(zip("mnk", shape))}
            kernels = {name: road.build({"problem": problem, "split": {"scheme": name}}, plan.gpu.name) for name in kernels}
        results.append(race(kernels, *shape, asked.seconds, rivals, asked.beta))
    print(table(results))
    for one in results:
        print(one["size"], one["device"], one["rounds"], "rounds;", {name: f"{1e3 * t:.3f} ms" for name, t in one["seconds"].items()},
              {name: f"predicted {1e3 * t:.3f} ms" for name, t in one["predicted_seconds"].items()},
              {name: f"workspace {size / 1e6:.0f} MB" for name, size in one["workspace_bytes"].items()}, one["kernels"])
    if asked.json:
        asked.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
