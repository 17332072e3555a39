"""What a library of kernels costs and gives, by its C functions alone.

    gemmgen library specs/libraries/lab.toml -o lab
    python bench/library.py overhead lab             # a call on the host, against its launches alone; a GPU and cupy
    python bench/library.py overhead lab --stand-in tests/support/standin_driver.c  # what the library itself takes of that; no GPU
    python bench/library.py products lab             # times beside cuBLAS's SGEMM, and what other kernels of the library take
    python bench/library.py products lab others --table lab_h200.json --json race.json  # these and another library's kernels, as a dispatch table
    python bench/library.py products lab --inside 16384 --sizes 15872x512x512,8192x8192x8192  # C -= A B of corners of one matrix by columns
    python bench/library.py packed lab               # (64 ... 4096) x 4096 x 4096 with B packed, beside SGEMM
    python bench/library.py batches lab              # batches told by arrays of pointers and by strides, beside cuBLAS's

Times are medians of rounds in which all contenders take turns, over operands that together are larger than L2.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import math
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from gemmgen.library.structures import Choice, Packed, Problem, Target, sized
from gemmgen.timing import Contender
from gemmgen.timing.products import raced

CALLS = 100  # fewer than a stream takes before the host has to wait
ROUNDS, ROUNDS_OF_RACE = 41, 9
PACKED_ROWS = (64, 128, 256, 512, 1024, 2048, 4096)
SIZES = (
    *((size, size, size) for size in (64, 128, 256, 512, 1024, 2048, 4096, 8192)), (64, 4096, 4096), (256, 4096, 4096), (4096, 256, 4096), (4096, 4096, 256),
    (512, 512, 8192), (1000, 1000, 1000), (777, 1111, 3333),
)
BATCHES = ((1024, 64), (256, 128), (256, 256), (64, 512), (16, 1024), (4, 2048), (4, 4096), (1, 4096))  # products, and their m, n and k
L2 = 64 << 20
HOPELESS = 2.5  # times the least time that the first library predicts of a product: slower kernels are not timed
UNCOUNTED, POINTERS = 2, 4  # the flags of these names
BY_COLUMNS = 1
_MINUS, _ONE = ctypes.c_float(-1.0), ctypes.c_float(1.0)
MINUS, ONE = (ctypes.cast(ctypes.byref(x), ctypes.c_void_p) for x in (_MINUS, _ONE))


def built(folder: Path, out: Path, *flags: str) -> ctypes.CDLL:
    """The library of a folder as a shared one, by gcc alone."""
    name = json.loads((folder / "manifest.json").read_text())["name"]
    file = out / f"lib{name}{len(list(out.iterdir()))}.so"
    subprocess.run(["gcc", "-std=gnu99", "-O2", "-fPIC", "-shared", "-fvisibility=hidden", *flags, f"-I{folder / 'include'}", f"-I{folder / 'src' / 'code'}",
                    str(folder / "src" / f"{name}.c"), str(folder / "src" / "code.c"), "-o", str(file), "-ldl", "-lpthread"], check=True)
    return ctypes.CDLL(str(file))


def helper(out: Path, *flags: str) -> ctypes.CDLL:
    file = out / f"helper{len(list(out.iterdir()))}.so"
    subprocess.run(["gcc", "-O2", "-fPIC", "-shared", str(Path(__file__).with_name("library_calls.c")), *flags, "-o", str(file), "-ldl"], check=True)
    found = ctypes.CDLL(str(file))
    for function in ("time_calls", "time_recorded"):
        if hasattr(found, function):
            getattr(found, function).restype = ctypes.c_double
    found.file = str(file)
    return found


def loaded(name: str) -> str:
    """Where a library lies that this process has."""
    return next(line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines() if f"/{name}" in line)


def problem(m: int, n: int, k: int, a: int, b: int, c: int, **more: Any) -> Problem:
    return sized(Problem, **{"m": m, "n": n, "k": k, "lda": k, "ldb": n, "ldc": n, "a": a, "b": b, "c": c, **more})


class Calls:
    """A library's functions, with its own name before them."""

    def __init__(self, folder: Path, library: ctypes.CDLL):
        self.name, self._library = json.loads((folder / "manifest.json").read_text())["name"], library
        self.function("kernel_name").restype = ctypes.c_char_p
        self.function("error_string").restype = ctypes.c_char_p

    def function(self, name: str) -> Any:
        return getattr(self._library, f"{self.name}_{name}")

    def __call__(self, name: str, *args: Any) -> None:
        code = self.function(name)(*args)
        if code:
            raise SystemExit(f"{name}: {code}, {self.function('error_string')(code).decode()}")

    def choice(self, of: Problem, target: Target | None = None, packed: Packed | None = None) -> Choice:
        found, where = sized(Choice), ctypes.byref(target) if target else None
        if packed:
            self("select_packed", ctypes.byref(of), ctypes.byref(packed), where, ctypes.byref(found))
        else:
            self("select", ctypes.byref(of), where, ctypes.byref(found))
        return found

    def kernel(self, number: int) -> str:
        return self.function("kernel_name")(number).decode()


# ---- the host's time


def overhead(folder: Path, stand_in: Path | None, out: Path) -> None:
    timer = helper(out)
    if stand_in:
        driver = out / "libdriver.so"
        subprocess.run(["gcc", "-D_POSIX_C_SOURCE=200809L", "-O2", "-fPIC", "-shared", str(stand_in), "-o", str(driver)], check=True)
        name = json.loads((folder / "manifest.json").read_text())["name"].upper()
        calls = Calls(folder, built(folder, out, f'-D{name}_DRIVER_FILES="{driver}"'))
        memory, synchronize, recorder = 1 << 20, lambda: None, None
    else:
        import cupy

        block = cupy.zeros(1 << 26, cupy.uint8)
        memory, synchronize = block.data.ptr, cupy.cuda.Device().synchronize
        name = json.loads((folder / "manifest.json").read_text())["name"].upper()
        driver = loaded("libcuda.so")
        recorder = helper(out, "-DRECORDS", "-Wl,--no-as-needed", driver)
        calls = Calls(folder, built(folder, out))
        recording = Calls(folder, built(folder, out, f'-D{name}_DRIVER_FILES="{recorder.file}"'))
    print(f"{'call':28} {'launches':>8} {'library ns':>11} {'launches ns':>12} {'difference':>11}")
    for label, size, pooled, fields in (
        ("128, workspace given", 128, False, {}), ("512, workspace given", 512, False, {}), ("512, ReLU", 512, False, {"epilogue": 1}),
        ("512, workspace of the pool", 512, True, {}),
    ):
        of = problem(size, size, size, memory, memory + (1 << 22), memory + (1 << 23), **fields)
        needed = calls.choice(of).workspace_bytes
        at = (None, 0) if pooled else (memory + (3 << 23), needed)
        call = (ctypes.byref(of), ctypes.c_void_p(at[0]), ctypes.c_size_t(at[1]), None)
        calls("gemm", *call)
        count, direct = 0, []
        if recorder:
            # What the pool gave is given back: the launches that are repeated have memory of their own.
            given = (call[0], ctypes.c_void_p(memory + (3 << 23)), ctypes.c_size_t(needed), None)
            recording("gemm", *given)
            recorder.record(1)
            recording("gemm", *given)
            recorder.record(0)
            count = recorder.recorded()
        own = []
        for _ in range(ROUNDS):
            synchronize()
            own.append(timer.time_calls(calls.function("gemm"), *call, CALLS))
            if recorder:
                synchronize()
                direct.append(recorder.time_recorded(CALLS))
        synchronize()
        mine, theirs = statistics.median(own), statistics.median(direct) if direct else 0.0
        if mine < 0 or theirs < 0:
            raise SystemExit(f"{label}: {mine}, {theirs}")
        print(f"{label:28} {count:8d} {mine:11.0f} {theirs:12.0f} {mine - theirs:11.0f}")


# ---- the GPU's time


class Race:
    """Contenders over rotating operands, timed in turns; `batch` matrices each, one after another.

    Args:
        inside: columns of a square matrix, stored by columns, whose corners are the operands: C -= A B, as a factorization does it. 0: matrices by themselves.
    """

    def __init__(self, m: int, n: int, k: int, batch: int = 1, inside: int = 0, layout: str = "nn"):
        import cupy

        self.cupy, self.m, self.n, self.k, self.batch, self.inside, self.layout = cupy, m, n, k, batch, inside, layout
        if inside:
            if max(m, n) + k > inside:
                raise SystemExit(f"{m} x {n} x {k} does not lie in a matrix of {inside} columns: needs k + m and k + n of at most that")
            # Small, so that many products leave C finite.
            wholes = [cupy.random.default_rng(i).random((inside, inside), dtype=cupy.float32) * 1e-3 for i in range(2)]
            self.sets = [(one[0, k:], one[k:], one[k:, k:]) for one in wholes]
            return
        each = 4 * (m * k + k * n + m * n) * batch
        copies = max(2, -(-3 * L2 // each))
        rng = cupy.random.default_rng(0)
        stored = ((m, k) if layout[0] == "n" else (k, m), (k, n) if layout[1] == "n" else (n, k), (m, n))
        self.sets = [tuple(rng.standard_normal((x * batch, y), dtype=cupy.float32) for x, y in stored) for _ in range(min(copies, 200))]

    def run(self, contenders: dict[str, Any], slice_ms: float) -> dict[str, float]:
        """Microseconds of each: functions of a number of the operands."""
        field = {name: Contender(name, lambda index, call=call: call(index % len(self.sets)), judged=False) for name, call in contenders.items()}
        return {name: 1e6 * taken for name, taken in raced(field, rounds=ROUNDS_OF_RACE, slice_ms=slice_ms, warm_up=0.0).items()}


def stream_pointer() -> ctypes.c_void_p:
    import cupy

    return ctypes.c_void_p(cupy.cuda.get_current_stream().ptr)


def problem_of(race: Race, operands: tuple[Any, ...], **more: Any) -> Problem:
    m, n, k = race.m, race.n, race.k
    if race.inside:
        told = {"order": BY_COLUMNS, "lda": race.inside, "ldb": race.inside, "ldc": race.inside, "alpha": MINUS, "beta": ONE}
    else:
        a, b = (int(one == "t") for one in race.layout)
        told = {"transpose_a": a, "transpose_b": b, "lda": m if a else k, "ldb": k if b else n}
    if race.batch > 1:
        told |= {"batch": race.batch, "stride_a": m * k, "stride_b": k * n, "stride_c": m * n}
    return problem(m, n, k, *(x.data.ptr for x in operands), **told, **more)


def gemm_of(calls: Calls, race: Race, kernel: int = 0, workspace: Any = None) -> Any:
    return called(calls, [problem_of(race, one, kernel=kernel, flags=UNCOUNTED) for one in race.sets], workspace=workspace)


def called(calls: Calls, problems: list[Problem], packed: list[Packed] | None = None, workspace: Any = None) -> Any:
    """What multiplies the problem of a number, with workspace of its own where none is given."""
    import cupy

    if workspace is None:
        workspace = cupy.empty(max(256, calls.choice(problems[0], packed=packed and packed[0]).workspace_bytes), cupy.uint8)
    at = ctypes.c_void_p(workspace.data.ptr), ctypes.c_size_t(workspace.nbytes)
    name = "gemm_packed" if packed else "gemm"
    return lambda i, kept=workspace: calls(name, *(ctypes.byref(x[i]) for x in (problems, packed) if x), *at, stream_pointer())


def sgemm_of(race: Race) -> Any:
    """cuBLAS's own function: cupy's would set the stream once more, and with it the workspace back."""
    import cupy

    cupy.matmul(*cupy.ones((2, 2, 2), cupy.float32))  # loads cuBLAS and makes the handle
    handle, cublas = ctypes.c_void_p(cupy.cuda.device.get_cublas_handle()), ctypes.CDLL(loaded("libcublas.so"))
    scratch = cupy.empty(32 << 20, cupy.uint8)  # a workspace of our own, so that capturing allocates none
    one, zero = (ctypes.c_float(x) for x in (1.0, 0.0))
    m, n, k, inside = race.m, race.n, race.k, race.inside
    (ta, tb), (lda, ldb) = (int(x == "t") for x in race.layout), (m if race.layout[0] == "t" else k, k if race.layout[1] == "t" else n)

    def call(i: int) -> None:
        a, b, c = (ctypes.c_void_p(x.data.ptr) for x in race.sets[i])
        cublas.cublasSetStream_v2(handle, stream_pointer())
        cublas.cublasSetWorkspace_v2(handle, ctypes.c_void_p(scratch.data.ptr), ctypes.c_size_t(scratch.nbytes))
        if inside:
            code = cublas.cublasSgemm_v2(handle, 0, 0, m, n, k, MINUS, a, inside, b, inside, ONE, c, inside)
        elif race.batch > 1:
            code = cublas.cublasSgemmStridedBatched(
                handle, tb, ta, n, m, k, ctypes.byref(one), b, ldb, ctypes.c_longlong(k * n), a, lda, ctypes.c_longlong(m * k), ctypes.byref(zero), c, n,
                ctypes.c_longlong(m * n), race.batch)
        else:
            code = cublas.cublasSgemm_v2(handle, tb, ta, n, m, k, ctypes.byref(one), b, ldb, a, lda, ctypes.byref(zero), c, n)
        if code:
            raise SystemExit(f"cublasSgemm: {code}")

    return call


def error_of(race: Race, call: Any) -> float:
    """Relative Frobenius error of the first product, of at most 2048 rows of it; NaN of corners, which are not made anew."""
    cupy = race.cupy
    if race.inside:
        return float("nan")
    a, b, c = race.sets[0]
    c[...] = cupy.nan
    call(0)
    rows = slice(0, min(race.m, 2048))
    a, b = a[: race.m] if race.layout[0] == "n" else a[: race.k].T, b[: race.k] if race.layout[1] == "n" else b[: race.n].T
    want = a[rows].astype(cupy.float64) @ b.astype(cupy.float64)
    return float(cupy.linalg.norm(c[rows] - want) / cupy.linalg.norm(want))


def products(libraries: dict[Path, Calls], alone: bool, sizes: Any = SIZES, inside: int = 0, layouts: Any = ("nn",), seconds: float = math.inf,
             keep: Any = None) -> list[dict[str, Any]]:
    """What the first library takes and what all kernels of all of them do, at each size of each layout, until so many seconds are over.

    Args:
        libraries: the functions of each folder.
        sizes: m, n, k, and how many such products where there are several.
        keep: is given all rows after each product, as `gemmgen.library.raced` has them, with SGEMM's and the choice.
    """
    import cupy

    cupy.zeros(1)  # a context
    began, rows, first = time.perf_counter(), [], next(iter(libraries))
    for calls in libraries.values():
        calls("prepare")
    for layout in layouts:
        for size in sizes:
            if time.perf_counter() - began > seconds:
                print(f"no time was left from {layout}, {size} on", file=sys.stderr)
                return rows
            race = Race(*size, inside=inside, layout=layout)
            choice = libraries[first].choice(problem_of(race, race.sets[0]))
            chosen, known = choice.name.decode(), {}
            for folder, calls in libraries.items():
                for number in range(calls.function("kernels")()) if not alone else (choice.kernel,):
                    of, found = problem_of(race, race.sets[0], kernel=1 + number), sized(Choice)
                    if calls.function("select")(ctypes.byref(of), None, ctypes.byref(found)) == 0 and not found.is_fallback:
                        known.setdefault(calls.kernel(number), (found.seconds, folder, number, found.workspace_bytes))
            predicted = {name: one[0] for name, one in known.items()}
            # Of the first library's: another's estimates may be of other sizes.
            most = HOPELESS * min((seconds for seconds, folder, *_ in known.values() if folder == first), default=math.inf)
            hopeful = [name for name, one in predicted.items() if one <= most or name == chosen]
            # One for all, as launches follow one another: the words of a batch of models' products times all kernels fill a GPU's memory.
            workspace = cupy.empty(max([256, choice.workspace_bytes, *(known[name][3] for name in hopeful if name in known)]), cupy.uint8)
            contenders = {name: gemm_of(libraries[known[name][1]], race, 1 + known[name][2], workspace) for name in hopeful}
            if chosen not in contenders:  # a portable one
                contenders[chosen] = gemm_of(libraries[first], race, workspace=workspace)
            times = race.run({"SGEMM": sgemm_of(race), **contenders}, 5.0)
            best = min(contenders, key=times.__getitem__)
            rows.append({
                "layout": layout, **dict(zip(("m", "n", "k", "products"), (*size, 1))), "sgemm": times["SGEMM"] / 1e6, "sgemm_predicted": choice.sgemm_seconds,
                "chosen": chosen, "chosen_predicted": choice.seconds, "best": best, "error": error_of(race, contenders[chosen]),
                "best_error": error_of(race, contenders[best]), "measured": {name: times[name] / 1e6 for name in contenders if name in known},
                "chosen_measured": times[chosen] / 1e6, "predicted": predicted,
            })
            del race, contenders, workspace
            cupy.get_default_memory_pool().free_all_blocks()
            if keep:
                keep(rows)
    return rows


def told(rows: list[dict[str, Any]]) -> str:
    """The rows of a race as lines."""
    lines = [f"{'x SGEMM':>8} {'of best':>8} {'best x':>7} {'m x n x k':>22} {'us':>9} {'told':>9} {'SGEMM':>9} {'told':>9} {'error':>8} {'best':>8}"
             "  kernel, and the fastest where that is another; times in us"]
    for row in rows:
        mine, sgemm, best = row["chosen_measured"], row["sgemm"], row["measured"].get(row["best"], row["chosen_measured"])
        size = (f"{row['products']} of " if row["products"] > 1 else "") + " x ".join(str(row[one]) for one in "mnk")
        lines.append(
            f"{sgemm / mine:8.2f} {mine / best:8.2f} {sgemm / best:7.2f} {size:>22} {1e6 * mine:9.1f} {1e6 * row['chosen_predicted']:9.1f} {1e6 * sgemm:9.1f} "
            f"{1e6 * row['sgemm_predicted']:9.1f} {row['error']:8.1e} {row['best_error']:8.1e}  {row['layout']} {row['chosen']}"
            + (f", {row['best']}" if row["best"] != row["chosen"] else ""))
    return "\n".join(lines)


def race_products(folders: list[Path], out: Path, args: Any) -> None:
    """`products`: the race, and what is asked for of it."""
    libraries = {folder: Calls(folder, built(folder, out)) for folder in folders}

    def keep(rows: list[dict[str, Any]]) -> None:
        if args.json:
            args.json.write_text(json.dumps(rows))

    rows = products(libraries, args.alone, args.sizes, args.inside, args.layouts, args.seconds, keep)
    if args.also:
        rows += json.loads(args.also.read_text())
    if args.table:
        import cupy

        from gemmgen.library.raced import table

        device = cupy.cuda.runtime.getDeviceProperties(0)["name"].decode()
        found, costs = table([json.loads((folder / "manifest.json").read_text()) for folder in folders], rows, f"bench/library.py products on {device}",
                             args.stand_for)
        args.table.write_text(found.model_dump_json(indent=1, exclude_none=True) + "\n")
        for layout, cost in costs.items():
            print(f"{layout}: by the table's estimates {statistics.geometric_mean(cost):.3f} times the fastest in the mean, {max(cost):.2f} at worst")
    print(told(rows), flush=True)


def packed(folder: Path, out: Path) -> None:
    import cupy

    cupy.zeros(1)  # a context
    calls = Calls(folder, built(folder, out))
    calls("prepare")
    print(f"{'m x n x k':22} {'packed us':>9} {'plain us':>9} {'SGEMM us':>9} {'x SGEMM':>8} {'error':>9}  kernel")
    n = k = 4096
    for m in PACKED_ROWS:
        race = Race(m, n, k)
        a, b, c = race.sets[0]
        of = problem(m, n, k, a.data.ptr, b.data.ptr, c.data.ptr)
        nbytes = ctypes.c_size_t()
        calls("pack_bytes", ctypes.byref(of), ctypes.c_char(b"b"), None, ctypes.byref(nbytes))
        held, structs = [], []
        for one in race.sets:
            memory, struct = cupy.empty(nbytes.value, cupy.uint8), sized(Packed)
            source = problem(m, n, k, *(x.data.ptr for x in one))
            calls("pack", ctypes.byref(source), ctypes.c_char(b"b"), ctypes.c_void_p(memory.data.ptr), nbytes, stream_pointer(), ctypes.byref(struct))
            held.append(memory), structs.append(struct)
        choice = calls.choice(of, packed=structs[0])
        call = called(calls, [problem(m, n, k, *(x.data.ptr for x in one), flags=UNCOUNTED) for one in race.sets], structs)
        times = race.run({"packed": call, "plain": gemm_of(calls, race), "SGEMM": sgemm_of(race)}, 10.0)
        print(f"{m:5} x {n} x {k:4}     {times['packed']:9.1f} {times['plain']:9.1f} {times['SGEMM']:9.1f} {times['SGEMM'] / times['packed']:8.2f} "
              f"{error_of(race, call):9.2e}  {choice.name.decode()}", flush=True)
        del held


def batches(folder: Path, out: Path) -> None:
    """The library's kernel for batches told by pointers and by strides, the best of those that know of neither, and cuBLAS's two functions."""
    import cupy

    cupy.zeros(1)  # a context
    calls = Calls(folder, built(folder, out))
    calls("prepare")
    columns = ("products", "of", "pointers", "predicted", "strided", "copied", "predicted", "cuBLAS", "predicted", "strided", "x cuBLAS", "copied x", "error",
               "copied")
    print(" ".join(f"{one:>9}" for one in columns), " kernel; microseconds")
    for count, size in BATCHES:
        race = Race(size, size, size, count)
        lists = [tuple(cupy.array([x.data.ptr + 4 * size * size * i for i in range(count)], cupy.uint64) for x in one) for one in race.sets]

        def told(at: int, flags: int, kernel: int = 0) -> Problem:
            operands = (x.data.ptr for x in (lists if flags else race.sets)[at])
            return problem(size, size, size, *operands, batch=count, flags=UNCOUNTED | flags, kernel=kernel,
                           **dict.fromkeys(("stride_a", "stride_b", "stride_c"), size * size))

        def gemm(flags: int, kernel: int = 0) -> Any:
            return called(calls, [told(at, flags, kernel) for at in range(len(race.sets))])

        def bytes_and_seconds(flags: int, kernel: int) -> tuple[int, float] | None:
            found = sized(Choice)
            of = told(0, flags, kernel)
            refused = calls.function("select")(ctypes.byref(of), None, ctypes.byref(found)) or found.is_fallback
            return None if refused else (found.workspace_bytes, found.seconds)

        # Those that copy matrices need more memory for a batch of pointers than for a strided one.
        known = {kernel: (bytes_and_seconds(POINTERS, kernel), bytes_and_seconds(0, kernel)) for kernel in range(1, 1 + calls.function("kernels")())}
        copying = {kernel: one[1] for kernel, (one, other) in known.items() if one and one[0] != other[0]}
        copied = min(copying, key=copying.get)
        contenders = {"pointers": gemm(POINTERS), "strided": gemm(0), "copied": gemm(POINTERS, copied), "SGEMM": sgemm_batched_of(race, lists),
                      "SGEMM strided": sgemm_batched_of(race, None)}
        errors = {name: error_of(race, contenders[name]) for name in ("pointers", "copied")}
        times, choice = race.run(contenders, 5.0), calls.choice(told(0, POINTERS))
        told_times = (times["pointers"], 1e6 * choice.seconds, times["strided"], times["copied"], 1e6 * copying[copied], times["SGEMM"],
                      1e6 * choice.sgemm_seconds, times["SGEMM strided"])
        print(f"{count:9} {size:9}", *(f"{one:9.1f}" for one in told_times), *(f"{times['SGEMM'] / times[name]:9.2f}" for name in errors),
              *(f"{one:9.2e}" for one in errors.values()), f" {choice.name.decode()}", flush=True)


def sgemm_batched_of(race: Race, lists: list[tuple[Any, ...]] | None) -> Any:
    """cublasSgemmBatched, or without lists cublasSgemmStridedBatched."""
    import cupy

    cupy.matmul(race.sets[0][0][:2], race.sets[0][1][: race.k])
    handle, cublas = ctypes.c_void_p(cupy.cuda.device.get_cublas_handle()), ctypes.CDLL(loaded("libcublas.so"))
    scratch = cupy.empty(32 << 20, cupy.uint8)
    one, zero = (ctypes.c_float(x) for x in (1.0, 0.0))

    def call(i: int) -> None:
        a, b, c = (ctypes.c_void_p(x.data.ptr) for x in (lists or race.sets)[i])
        apart = [[], [], []] if lists else [[ctypes.c_longlong(x * y)] for x, y in ((race.k, race.n), (race.m, race.k), (race.m, race.n))]
        cublas.cublasSetStream_v2(handle, stream_pointer())
        cublas.cublasSetWorkspace_v2(handle, ctypes.c_void_p(scratch.data.ptr), ctypes.c_size_t(scratch.nbytes))
        function = cublas.cublasSgemmBatched if lists else cublas.cublasSgemmStridedBatched
        code = function(handle, 0, 0, race.n, race.m, race.k, ctypes.byref(one), b, race.n, *apart[0], a, race.k, *apart[1], ctypes.byref(zero), c, race.n,
                        *apart[2], race.batch)
        if code:
            raise SystemExit(f"{function.__name__}: {code}")

    return call


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("overhead", "products", "packed", "batches"))
    parser.add_argument("folders", type=Path, nargs="+", metavar="folder", help="what gemmgen library wrote; products: all kernels of several race")
    parser.add_argument("--stand-in", type=Path, metavar="FILE.c", help="overhead: on a stand-in for the driver, in C")
    parser.add_argument("--alone", action="store_true", help="products: without the library's other kernels")
    parser.add_argument("--sizes", type=lambda text: [tuple(map(int, one.split("x"))) for one in text.split(",")], default=SIZES,
                        help="products: of MxNxK, or MxNxKxPRODUCTS")
    parser.add_argument("--inside", type=int, default=0, metavar="COLUMNS", help="products: C -= A B of corners of a matrix of so many columns")
    parser.add_argument("--layouts", type=lambda text: text.split(","), default=["nn"], help="products: nn,nt,tn,tt")
    parser.add_argument("--seconds", type=float, default=math.inf, help="products: no further size after so many")
    parser.add_argument("--json", type=Path, metavar="FILE", help="products: every time, too")
    parser.add_argument("--table", type=Path, metavar="FILE", help="products: a dispatch table of the measured times, for [[use]] table of a library")
    parser.add_argument("--stand-for", type=lambda text: text.split(","), default=[], metavar="LAYOUTS",
                        help="of the table: that take the first layout's times")
    parser.add_argument("--also", type=Path, metavar="FILE", help="of the table: what --json wrote of further products, raced before by the same kernels")
    args = parser.parse_args()
    folders = [one.resolve() for one in args.folders]
    if len(folders) > 1 and args.what != "products":
        parser.error(f"{args.what} takes one folder")
    with tempfile.TemporaryDirectory() as out:
        if args.what == "overhead":
            overhead(folders[0], args.stand_in, Path(out))
        elif args.what == "products":
            race_products(folders, Path(out), args)
        else:
            {"packed": packed, "batches": batches}[args.what](folders[0], Path(out))


if __name__ == "__main__":
    main()
