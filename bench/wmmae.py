"""WMMAe's figures with the shipped uses of fragments' headers: 4 (Householder), 5 (Givens), 8 (batched SGEMM), and reduction, scan, outer product.

    python bench/wmmae.py [--part uses,sgemm] [--fragment mma_m16n8k16_f16] [--seconds 40] [--json FILE]
    python bench/wmmae.py --part once          # every kernel once, in small, and its error: for compute-sanitizer
    python bench/wmmae.py --emulate            # the same of the small uses, without a GPU

Each use is timed in its two forms: operands made in registers, and through shared memory; `vendor` is the latter with nvcuda::wmma in the header's place.
The paper prints figures 4 and 5 as pictures without numbers; what its text says of them stands beside ours. Times are medians of a race, from CUDA
graphs. Raises DeviceError without a CUDA GPU.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gemmgen import timing
from gemmgen.build import compile_cuda
from gemmgen.catalog.fragment import FRAGMENTS, Fragment
from gemmgen.errors import BuildError, DeviceError, ResourceError
from gemmgen.fragment_header import header_name
from gemmgen.fragment_uses import Tile, sizes_of, use
from gemmgen.timing import Contender

PAPER = {
    "householder 16": "figure 4: faster in registers on V100, slower on A100",
    "householder 32": "figure 4: faster in registers on V100 and on A100, where one mapping serves four fragments",
    "givens 16 embedded": "figure 5: faster in registers",
    "givens 16 arguments": "figure 5: slower in registers",
    "givens 32 embedded": "figure 5: faster in registers",
    "givens 32 arguments": "figure 5: slower in registers",
    "outer 16": "code only", "outer 32": "code only", "reduction": "cites Dakkak et al.", "scan": "eq. 3 and code 3, no figure",
}
"""What the paper says of each, in words."""
PAPER_SGEMM = "figure 8, A100 40 GB: 54.2 TFLOP/s at the most (FP32 peak 19.5), roofline 104.0; through shared memory at most 52.0; error as cuBLAS SGEMM"
TILES = (
    Tile((128, 64, 32), (32, 32, 16)), Tile((128, 128, 16), (64, 32, 16)), Tile((128, 128, 16), (32, 32, 16)), Tile((64, 64, 32), (32, 32, 16)),
    Tile((128, 64, 16), (64, 32, 16)), Tile((64, 64, 16), (32, 32, 16)), Tile((64, 128, 16), (32, 64, 16)),
)
"""Of figure 8's kernel, as the paper searched a grid."""
BATCHES = (4096, 65536)


@dataclass
class Case:
    """One kernel of a use with its data.

    Attributes:
        group: `householder 16`, of which there are several forms.
        form: `registers`, `shared` or `vendor`.
        symbol, text: of the kernel.
        inputs: arrays, in the kernel's order; after them comes the result, of `shape`, and then `numbers`.
        want: what the first entries of the result should be, FP64; allowed: how far they may be off.
    """

    group: str
    form: str
    symbol: str
    text: str
    inputs: tuple[np.ndarray, ...]
    shape: tuple[int, ...]
    numbers: tuple[int, ...]
    blocks: int
    threads: int
    want: np.ndarray
    allowed: float


STUBS = """using namespace nvcuda::wmma;
using Word = half;
__device__ inline half to_word(float x) { return __float2half_rn(x); }
template <class... Any> __device__ void generate(Any&&...) {}
template <class... Any> __device__ void set_ij(Any&&...) {}
"""
"""What a use calls of a header that the vendor's has not: the form through shared memory does without."""


def vendor(text: str, fragment: Fragment) -> str:
    """A use of single words, 16 x 16, with the vendor's own fragments: its namespace changes."""
    own = f"using namespace {fragment.name}::wmma;\n"
    assert own in text
    body = text.replace(own, STUBS).replace(f'#include "{header_name(fragment)}"', "")
    return "#include <cuda_fp16.h>\n#include <mma.h>\n" + body[: body.index("// a [batch, 32")].replace("__device__ __forceinline__ ", "__device__ inline ")


def cases(fragment: Fragment, batch: int, vendors: bool) -> Iterator[Case]:
    """The small uses, of single words as the paper has them, each on `batch` matrices."""
    rng = np.random.default_rng(1)
    draw = lambda *shape: rng.uniform(-1, 1, shape).astype(np.float32)  # noqa: E731
    few, threads = min(batch, 64), 4 * fragment.threads
    half = lambda x: x.astype(np.float16)  # noqa: E731
    blocks = -(-batch // 4)
    for name in ("householder", "givens", "outer"):
        text = use(name, fragment)
        texts = [("registers", text), ("shared", text)]
        for size in sizes_of(fragment):
            a = half(draw(batch, size, size))
            held = a[:few].astype(np.float64)
            # nvcuda's fragments are 16 x 16 x 16
            of_vendor = [("vendor", vendor(use(name, fragment, header=False), fragment))] if (
                vendors and size == 16 and name != "outer" and fragment.word == "f16") else []
            if name == "householder":
                v = rng.standard_normal((batch, size))
                v = (v / np.linalg.norm(v, axis=1, keepdims=True)).astype(np.float32)
                matrix = np.eye(size) - 2 * v[:few, :, None].astype(np.float64) * v[:few, None, :]
                for form, one in texts + of_vendor:
                    yield Case(f"{name} {size}", form, f"{name}_{size}_{'shared' if form == 'vendor' else form}", one, (a, v), a.shape, (batch,), blocks,
                               threads, matrix @ held, 3e-3)
            elif name == "givens":
                angles = rng.uniform(-3, 3, batch)
                both = np.stack([np.cos(angles), np.sin(angles)], 1).astype(np.float32)
                matrix = np.tile(np.eye(size), (few, 1, 1))
                p, q = 3, 12
                matrix[:, p, p] = matrix[:, q, q] = both[:few, 0]
                matrix[:, p, q], matrix[:, q, p] = both[:few, 1], -both[:few, 1]
                for how in ("embedded", "arguments"):
                    for form, one in texts + of_vendor:
                        yield Case(f"{name} {size} {how}", form, f"{name}_{size}_{'' if form == 'registers' else 'shared_'}{how}", one, (a, both), a.shape,
                                   (batch, p, q), blocks, threads, matrix @ held, 3e-3)
            else:
                u, v = draw(batch, size), draw(batch, size)
                for form, one in texts:  # K of the vendor's fragments is 16 too, but a vector is none of its
                    yield Case(f"{name} {size}", form, f"{name}_{size}_{form}", one, (u, v), a.shape, (batch,), blocks, threads,
                               u[:few, :, None].astype(np.float64) * v[:few, None, :], 3e-3)
    size = (sizes_of(fragment) or (16,))[0]
    length = 64 * size * fragment.shape[2] // 16
    rows = max(16, batch // 64)
    for name in ("reduction", "scan"):
        many = rows if name == "reduction" else rows * size // 4
        x = half(draw(many, length))
        held = x[:few].astype(np.float64)
        want = held.sum(1) if name == "reduction" else held.cumsum(1)
        for form in ("registers", "shared"):
            yield Case(name, form, f"{name}_{form}", use(name, fragment), (x,), (many,) if name == "reduction" else x.shape, (many, length),
                       -(-many // 4) if name == "reduction" else -(-many // (4 * size)), threads, want, 1e-2)


def headers() -> list[str]:
    """Where mma.h lies, for the vendor's form."""
    root = Path(os.environ.get("CUDA_HOME") or "/usr/local/cuda") / "include"
    return [f"-I{root}", f"-I{root / 'cccl'}"]


def loaded(text: str, arch: str) -> Any:
    """The text's kernels on the GPU, and the registers and shared memory of each."""
    import cupy

    binary = compile_cuda(text, arch, name="uses.cu", options=headers() if "#include" in text else ())
    module = cupy.cuda.function.Module()
    module.load(binary.code)
    return module, binary


def contender(case: Case, modules: dict[str, Any], arch: str, name: str) -> tuple[Contender, float]:
    """What runs a case, and its error over what is allowed."""
    import cupy

    if case.text not in modules:
        modules[case.text] = loaded(case.text, arch)
    module, binary = modules[case.text]
    function = module.get_function(case.symbol)
    inputs = [cupy.asarray(one) for one in case.inputs]
    out = cupy.full(case.shape, np.nan, np.float32)

    def enqueue(index: int) -> None:
        function((case.blocks,), (case.threads,), (*inputs, out, *map(np.int32, case.numbers)))

    enqueue(0)
    got = cupy.asnumpy(out[: len(case.want)]).astype(np.float64)
    return Contender(name, enqueue, detail=f"{binary.kernels[case.symbol].registers} registers"), float(np.abs(got - case.want).max() / case.allowed)


def uses(fragment: Fragment, arch: str, seconds: float) -> dict[str, Any]:
    """Races the small uses at each batch, and prints a table of them."""
    found: dict[str, Any] = {}
    modules: dict[str, Any] = {}
    for batch in BATCHES:
        field: dict[tuple[str, str], Contender] = {}
        wrong: dict[tuple[str, str], float] = {}
        for case in cases(fragment, batch, vendors=True):
            key = case.group, case.form
            try:
                field[key], wrong[key] = contender(case, modules, arch, " ".join(key))
            except (BuildError, ResourceError) as error:
                print(f"{key}: {error}", file=sys.stderr)
        timing.race(list(field.values()), rounds=7, slice_ms=3, seconds=seconds / len(BATCHES), warm_up=0.3)
        print(f"\n{fragment.name}, batch {batch}: microseconds, and shared over registers (above 1: registers are faster)")
        print(f"{'':<22}{'registers':>12}{'shared':>10}{'ratio':>7}{'nvcuda':>10}{'ratio':>7}{'error':>8}  the paper")
        for group in dict.fromkeys(group for group, _ in field):
            taken = {form: statistics.median(field[group, form].seconds) * 1e6 for form in ("registers", "shared", "vendor") if (group, form) in field}
            ratios = {form: taken[form] / taken["registers"] for form in ("shared", "vendor") if form in taken}
            error = max(wrong[group, form] for form in taken)
            shown = f"{taken['vendor']:>10.1f}{ratios['vendor']:>7.2f}" if "vendor" in taken else " " * 17
            print(f"{group:<22}{taken['registers']:>12.1f}{taken.get('shared', 0):>10.1f}{ratios.get('shared', 0):>7.2f}{shown}"
                  f"{'ok' if error <= 1 else 'WRONG':>8}  {PAPER.get(group, '')}", flush=True)
            found[f"{group} batch {batch}"] = taken | {"error": error}
    return found


def sgemm(fragment: Fragment, arch: str, seconds: float, batch: int = 256) -> dict[str, Any]:
    """Figure 8: products of 1024 x k by k x 1024, and what cuBLAS does of the same batch."""
    import cupy

    m = n = 1024
    found: dict[str, Any] = {}
    texts = {(tile, policy): use("batched", fragment, "tcec", tile, policy) for tile in TILES for policy in ("with_ec",)}
    texts |= {(TILES[0], policy): use("batched", fragment, "tcec", TILES[0], policy) for policy in ("without_ec", "simt")}
    modules: dict[str, Any] = {}
    best: dict[str, float] = {}
    for k in (256, 1024, 4096):
        a = cupy.random.uniform(-1, 1, (batch, m, k), dtype=np.float32)
        b = cupy.random.uniform(-1, 1, (batch, k, n), dtype=np.float32)
        out = cupy.empty((batch, m, n), np.float32)
        picked = [0, batch - 1]
        exact = {i: cupy.matmul(a[i].astype(np.float64), b[i].astype(np.float64)) for i in picked}

        def error() -> tuple[float, float]:
            """Relative Frobenius, and the largest error over the largest element."""
            cupy.cuda.Device().synchronize()
            off = [(out[i] - exact[i], exact[i]) for i in picked]  # noqa: B023
            return max(float(cupy.linalg.norm(e) / cupy.linalg.norm(c)) for e, c in off), max(float(cupy.abs(e).max() / cupy.abs(c).max()) for e, c in off)

        field: dict[str, Contender] = {}
        errors: dict[str, Any] = {}
        for (tile, policy), text in texts.items():
            try:
                if text not in modules:
                    modules[text] = loaded(text, arch)
            except (BuildError, ResourceError) as problem:
                print(f"{tile}: {problem}", file=sys.stderr)
                modules[text] = None
            if not modules[text]:
                continue
            module, binary = modules[text]
            for form in ("registers", "shared"):
                symbol = f"batched_{form}"
                if symbol not in binary.kernels:
                    continue
                function = module.get_function(symbol)
                blocks = batch * (m // tile.block[0]) * (n // tile.block[1])

                def enqueue(index: int, function=function, blocks=blocks, tile=tile) -> None:
                    function((blocks,), (tile.threads,), (a, b, out, *map(np.int32, (m, n, k))))  # noqa: B023

                name = f"{policy} {form} {'x'.join(map(str, tile.block))} warp {'x'.join(map(str, tile.warp))}"
                out.fill(np.nan)
                enqueue(0)
                errors[name] = error()
                field[name] = Contender(name, enqueue, detail=f"{binary.kernels[symbol].registers} registers")
        out.fill(np.nan)
        cupy.matmul(a, b, out=out)
        errors["cuBLAS SGEMM"] = error()
        field["cuBLAS SGEMM"] = Contender("cuBLAS SGEMM", lambda index: cupy.matmul(a, b, out=out), capturable=False)  # noqa: B023
        timing.race(list(field.values()), rounds=5, slice_ms=20, seconds=seconds / 3, warm_up=0.3)
        print(f"\n{batch} products of 1024 x {k} by {k} x 1024, {fragment.name}; the paper, {PAPER_SGEMM}")
        print(f"{'':<52}{'TFLOP/s':>9}{'Frobenius':>11}{'over max':>10}")
        for name, one in field.items():
            rate = 2 * batch * m * n * k / statistics.median(one.seconds) / 1e12
            print(f"{name:<52}{rate:>9.1f}{errors[name][0]:>11.1e}{errors[name][1]:>10.1e}  {one.detail}", flush=True)
            found[f"k {k}, {name}"] = {"tflops": rate, "frobenius": errors[name][0], "over_max": errors[name][1]}
            best[name] = max(best.get(name, 0), rate)
        del a, b, out, exact
        timing.release_memory()
    return found


def once(fragment: Fragment, arch: str, seconds: float) -> dict[str, Any]:
    """Every kernel once on few matrices."""
    import cupy

    modules: dict[str, Any] = {}
    found = {}
    for case in cases(fragment, 64, vendors=False):
        _, found[f"{case.group} {case.form}"] = contender(case, modules, arch, case.group)
    rng = np.random.default_rng(2)
    for policy in ("with_ec", "without_ec", "simt"):
        tile = TILES[0]
        m, n, k = 2 * tile.block[0], 2 * tile.block[1], 3 * tile.block[2]
        a, b = (rng.uniform(-1, 1, shape).astype(np.float32) for shape in ((2, m, k), (2, k, n)))
        for form in ("registers",) if policy == "simt" else ("registers", "shared"):
            case = Case(f"batched {policy}", form, f"batched_{form}", use("batched", fragment, "tcec", tile, policy), (a, b), (2, m, n), (m, n, k), 8,
                        tile.threads, a.astype(np.float64) @ b, 2e-2 if policy == "without_ec" else 2e-5)
            _, found[f"{case.group} {form}"] = contender(case, modules, arch, case.group)
    cupy.cuda.Device().synchronize()
    for name, error in found.items():
        print(f"{name:<34}{error:8.3f} of what is allowed{'' if error <= 1 else '  WRONG'}", flush=True)
    return found


def emulate(fragment: Fragment) -> int:
    """Every small use once on the emulator, and its error over what is allowed."""
    from gemmgen.catalog.unit import UNITS
    from gemmgen.emulate import Emulator

    bad = 0
    for case in cases(fragment, 8, vendors=False):
        binary = compile_cuda(case.text, f"sm_{fragment.min_arch}")
        with Emulator(binary.assembly, UNITS.get("ampere"), source=case.text, processes=1) as emulator:
            arrays = [emulator.upload(one, name=f"input_{i}") for i, one in enumerate(case.inputs)]
            out = emulator.alloc(4 * int(np.prod(case.shape)), name="out")
            emulator.launch(case.symbol, (case.blocks, 1, 1), (case.threads, 1, 1), 0, [*arrays, out, *case.numbers])
            got = emulator.read(out, np.float32, case.shape)[: len(case.want)]
        error = float(np.abs(got - case.want).max() / case.allowed)
        bad += error > 1
        print(f"{case.group:<22}{case.form:<12}{error:8.3f} of what is allowed")
    return int(bad > 0)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", default="uses,sgemm")
    parser.add_argument("--fragment", default="mma_m16n8k16_f16")
    parser.add_argument("--seconds", type=float, default=40, help="of racing, over all parts")
    parser.add_argument("--arch", default="")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--emulate", action="store_true")
    options = parser.parse_args()
    fragment = FRAGMENTS.get(options.fragment, where="--fragment")
    if options.emulate:
        return emulate(fragment)
    try:
        import cupy

        arch = options.arch or f"sm_{cupy.cuda.Device().compute_capability}"
    except Exception as error:
        raise DeviceError("bench/wmmae.py", "times kernels on a CUDA GPU", got=str(error), remedy="--emulate runs them in small without one") from error
    parts: dict[str, Callable[..., dict[str, Any]]] = {"uses": uses, "sgemm": sgemm, "once": once}
    chosen = options.part.split(",")
    found = {}
    for part in chosen:
        found[part] = parts[part](fragment, arch, options.seconds / len(chosen))
        if options.json:
            options.json.write_text(json.dumps(found, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
