"""A library's runtime in C: its choice is the model's, arguments are checked, what a device needs is loaded once. Nothing is launched."""

from __future__ import annotations

import ctypes
import random
import re
import shutil
import subprocess
import sys
import threading
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from standin import GCC, LARGEST_EXTENT, NAME, Library
from ways import AMD_WAYS, WAYS, plan_of

from gemmgen.abi import Line, Parameter, interface
from gemmgen.build import Binary, Built
from gemmgen.catalog.element import F32, F64
from gemmgen.catalog.gpu import GPUS
from gemmgen.errors import GemmgenError
from gemmgen.export import prose
from gemmgen.library import kernel as kernel_code
from gemmgen.library import tables
from gemmgen.library.dispatch import Estimate, Rule
from gemmgen.library.kernel import Kernel, portable_ptx
from gemmgen.library.structures import Choice, Packed, Problem, Target, sized
from gemmgen.paths import TEMPLATES
from gemmgen.render import render
from gemmgen.solve import solve
from gemmgen.spec import loads

needs_gcc = pytest.mark.skipif(GCC is None, reason="a C compiler builds the library")

OK, NOT_SERVED, TOO_LARGE, BAD_KERNEL, NO_DRIVER, NO_CONTEXT, NO_MEMORY, BAD_WORKSPACE, BAD_FLAGS = 0, -21, -20, -16, -22, -23, -24, -17, -15
POINTERS = 4
LARGE = {"block": [128, 128, 32], "warp": [64, 32, 32]}


def of_plan(label: str, plan, estimate: Estimate | None, is_fallback: bool = False) -> Kernel:
    source = SOURCES[plan.hash] = SOURCES.get(plan.hash) or render(plan)
    resources = {launch.symbol: SimpleNamespace(static_shared_bytes=0) for launch in source.launches}
    binary = Binary(arch=plan.arch, code=b"", assembly=f".version 9.0\n.target {plan.arch}\n", kernels=resources, compiler="", log="", key="",
                    source_name=source.file_name, from_cache=False, seconds=0.0)
    return Kernel(label, Built(plan, source, binary), estimate, f'for "{label}"', is_fallback)


SOURCES = {}
"""What was rendered before, by the plan's hash."""


def estimate(plan, **terms: float) -> Estimate:
    usual = {"launch": 5e-6, "wave": 1e-6, "step": 2e-8, "operand": 1e-12, "output": 2e-12}
    return Estimate(tile=plan.block[:2], slices=plan.split_k, sms=108, **{**usual, **terms})


def kernels() -> list[Kernel]:
    small, large, sliced = plan_of(), plan_of(tile=LARGE), plan_of(split_k=3)
    return [
        of_plan("small", small, estimate(small, step=2e-8)), of_plan("large", large, estimate(large, launch=9e-6, step=6e-8, operand=0.0)),
        of_plan("sliced", sliced, estimate(sliced, wave=9e-6)),
        of_plan("deep", plan_of(tile=LARGE, stages=4), estimate(large, launch=1.0)), of_plan("tn", plan_of(layout="tn"), None),
        of_plan("old", plan_of(gpu="t4", scheme="egemm", promote=0), estimate(small, launch=0.0)),
        of_plan("any", plan_of(scheme="fp32", promote=0, gpu="t4", loads="grouped", where="shared",
                               tile={"block": [64, 64, 16], "warp": [32, 32, 16]}), None, True),
    ]


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Library:
    return Library(tmp_path_factory.mktemp("library"), kernels(), archs=["sm_80"], emulates=False, arch="sm_80", optimised="-O2")


def problem(m=100, n=100, k=100, **more) -> Problem:
    """Row major, nn, pointers that nothing looks at."""
    usual = {"lda": max(1, k), "ldb": max(1, n), "ldc": max(1, n), "a": 256, "b": 256, "c": 256}
    return sized(Problem, m=m, n=n, k=k, **{**usual, **more})


def choice_of(library: Library, of: Problem, arch: str | None = "sm_80", units: int = 108) -> Choice | int:
    """What the library chooses, or its refusal."""
    choice = sized(Choice)
    target = ctypes.byref(sized(Target, arch=arch.encode(), units=units)) if arch else None
    code = library("select", ctypes.byref(of), target, ctypes.byref(choice))
    return choice if code == OK else code


@needs_gcc
def test_the_choice_is_the_models(made):
    rng = random.Random(1)
    nn = [one for one in made.kernels if one.built.plan.gpu.name == "a100" and one.estimate]
    taken = set()
    for _ in range(300):
        m, n, k = (max(1, int(2 ** rng.uniform(0, 13))) for _ in range(3))
        units = rng.choice((1, 20, 108, 132))
        choice = choice_of(made, problem(m, n, k), units=units)
        seconds = {one.label: float(replace_sms(one.estimate, units).seconds(m, n, k)) for one in nn}
        wanted = min(seconds, key=seconds.get)
        label = made.kernels[choice.kernel].label
        assert seconds[label] == pytest.approx(seconds[wanted], rel=1e-12) and choice.seconds == pytest.approx(seconds[label], rel=1e-12)
        assert choice.workspace_bytes == made.kernels[choice.kernel].built.source.interface.workspace(m, n, k).bytes
        assert choice.reason.decode() == f'for "{label}"'
        taken.add(label)
    assert taken == {"small", "large", "sliced"}


def replace_sms(one: Estimate, units: int) -> Estimate:
    return one.model_copy(update={"sms": units})


@needs_gcc
def test_bounds_are_those_of_the_next_larger_k(made):
    plan = made.kernels[0].built.plan
    choice = choice_of(made, problem(100, 100, 1000, kernel=1))
    found = prose.coefficients(plan, 1024)
    assert choice.error == prose.rounded_up(tables.SAFETY * found.random) and choice.worst_case == prose.rounded_up(found.scaled)
    far = choice_of(made, problem(100, 100, 2 * tables.BOUND_K[-1], kernel=1))
    assert far.error == 2 * choice_of(made, problem(100, 100, tables.BOUND_K[-1], kernel=1)).error
    assert choice_of(made, problem(100, 100, 1000, kernel=1, largest_error=choice.error)).kernel == 0
    assert choice_of(made, problem(100, 100, 1000, kernel=1, largest_error=0.99 * choice.error)) == BAD_KERNEL
    assert choice_of(made, problem(100, 100, 1000, largest_error=1e-12)) == NOT_SERVED
    assert choice_of(made, problem(100, 100, 1000, largest_error=float("nan"))) == NOT_SERVED


@needs_gcc
@pytest.mark.parametrize(("arch", "label"), [
    ("sm_80", "small"), ("sm_86", "small"), ("sm_89", "small"), ("sm_75", "old"), ("sm_90", "any"), ("sm_120", "any"), ("sm_70", None), ("gfx90a", None),
])
def test_machine_code_runs_on_later_gpus_of_its_generation_and_ptx_on_all_later_ones(made, arch, label):
    choice = choice_of(made, problem(64, 64, 64), arch)
    if label is None:
        assert choice == NOT_SERVED
    else:
        assert made.kernels[choice.kernel].label == label and choice.is_fallback == (label == "any")
        assert choice.seconds > 0 and choice.sgemm_seconds > 0


@needs_gcc
def test_what_code_runs_where(tmp_path):
    """How well code suits a GPU: its architecture's number, 0 of PTX, -1 where it does not run; code of sm_90a and its like runs on that GPU alone."""
    text = (TEMPLATES / "library" / "runtime" / "devices.c.j2").read_text()
    [functions] = re.findall(r"static int arch_number.*?(?=static int16_t best_image)", text, re.S)
    (tmp_path / "suits.c").write_text("#include <string.h>\n" + functions + "int asked(const char *code, const char *arch) { return suits(code, arch); }\n")
    subprocess.run([GCC, "-shared", "-fPIC", "-o", str(tmp_path / "suits.so"), str(tmp_path / "suits.c")], check=True)
    asked = ctypes.CDLL(str(tmp_path / "suits.so")).asked
    for code, arch, suits in (
        ("sm_80", "sm_80", 80), ("sm_80", "sm_86", 80), ("sm_86", "sm_80", -1), ("sm_89", "sm_90", -1), ("sm_90a", "sm_90", 90), ("sm_100a", "sm_100", 100),
        ("sm_100a", "sm_103", -1), ("sm_100", "sm_103", 100), ("sm_120a", "sm_121", -1), ("compute_75", "sm_90", 0), ("compute_90", "sm_75", -1),
        ("gfx90a", "gfx90a", 1), ("gfx90a", "gfx90a:sramecc+:xnack-", 1), ("gfx90a", "gfx942", -1), ("gfx90", "gfx90a", -1), ("gfx90a", "sm_90", -1),
        ("sm_90", "gfx942", -1), ("sm_", "sm_90", -1), ("sm_10000", "sm_90", -1),
    ):
        assert asked(code.encode(), arch.encode()) == suits, (code, arch)


@needs_gcc
def test_what_a_block_of_a_smaller_gpu_has_no_shared_memory_for_is_not_taken(made):
    """sm_86 has 99 KB of the A100's 163."""
    deep = next(number for number, one in enumerate(made.kernels) if one.label == "deep")
    assert 101376 < made.kernels[deep].built.plan.shared_bytes <= 166912
    assert choice_of(made, problem(kernel=1 + deep)).kernel == deep
    assert choice_of(made, problem(kernel=1 + deep), "sm_86") == BAD_KERNEL


@needs_gcc
def test_kernels_without_an_estimate_come_after_those_with_one_and_before_fallbacks(made):
    choice = choice_of(made, problem(64, 64, 64, transpose_a=1, lda=64))
    assert made.kernels[choice.kernel].label == "tn"


@needs_gcc
def test_a_batch_goes_to_a_kernel_for_batches_or_takes_as_many_times_as_it_has_products(tmp_path):
    one = plan_of(**WAYS["warpgroups"])
    together = solve(loads({
        "problem": {"kind": "strided", "m": 256, "n": 256, "k": 256, "matrices": 64}, "split": {"scheme": "ootomo", "promote": 64},
        "tile": {"block": [64, 64, 32], "warp": [64, 64, 32], "cluster": 1, "split_k": 1}, "pipeline": {"stages": 3}, "fragment": {"policy": "wgmma"},
        "target": {"gpu": "h100"}, "build": {"allow_spills": True},
    }))
    batched = estimate(together, launch=1e-6)
    library = Library(tmp_path, [of_plan("one", one, estimate(one)), of_plan("together", together, batched)], archs=["sm_90"], emulates=False)
    strides = {"stride_a": 65536, "stride_b": 65536, "stride_c": 65536}
    batch = choice_of(library, problem(256, 256, 256, batch=64, **strides), "sm_90", 132)
    assert batch.kernel == 1
    waves = -(-16 * 64 // 132)
    assert batch.seconds == pytest.approx(batched.launch + waves * (batched.wave + batched.step * 256) + 64 * (batched.operand * 2 + batched.output) * 65536)
    assert batch.workspace_bytes == together_bytes(library, 64) and batch.workspace_bytes_packed == 0
    assert choice_of(library, problem(256, 256, 256), "sm_90", 132).kernel == 0, "its estimate is of batches"
    assert choice_of(library, problem(256, 256, 256, kernel=2), "sm_90", 132).kernel == 1
    forced = choice_of(library, problem(256, 256, 256, batch=64, kernel=1, **strides), "sm_90", 132)
    assert forced.seconds == pytest.approx(64 * choice_of(library, problem(256, 256, 256), "sm_90", 132).seconds)
    rows = choice_of(library, problem(256, 256, 256, batch=64, **{**strides, "stride_b": 0}), "sm_90", 132)
    merged = choice_of(library, problem(256 * 64, 256, 256), "sm_90", 132)
    assert (rows.kernel, rows.seconds) == (merged.kernel, merged.seconds), "one product of more rows"


@needs_gcc
def test_a_batch_of_pointers_costs_what_a_strided_one_does_where_the_kernel_reads_them_and_else_copies_besides(tmp_path):
    """Copies of A and B are written and read, the product is beside C: three launches more for each product."""
    one, together = plan_of(**WAYS["warpgroups"]), solve(loads({
        "problem": {"kind": "strided", "m": 256, "n": 256, "k": 256, "matrices": 64}, "split": {"scheme": "ootomo", "promote": 64},
        "tile": {"block": [64, 64, 32], "warp": [64, 64, 32], "cluster": 1, "split_k": 1}, "pipeline": {"stages": 3}, "fragment": {"policy": "wgmma"},
        "target": {"gpu": "h100"}, "build": {"allow_spills": True},
    }))
    reads = replace(together, batch=replace(together.batch, pointers=True))
    library = Library(tmp_path, [of_plan("one", one, estimate(one, launch=1e-3)), of_plan("together", together, estimate(together, launch=1e-4)),
                                 of_plan("reads", reads, estimate(reads, launch=1e-2))], archs=["sm_90"], emulates=False)
    apart = {"stride_a": 90000, "stride_b": 90000, "stride_c": 90000}
    vendor = tables.sgemm_estimate(one.gpu)
    m, n, k, batch = 250, 255, 130, 7

    def both(kernel: int) -> tuple[Choice, Choice]:
        return tuple(choice_of(library, problem(m, n, k, kernel=kernel, batch=batch, flags=flags, **apart), "sm_90", 132) for flags in (0, POINTERS))

    strided, listed = both(3)
    assert (listed.seconds, listed.workspace_bytes) == (strided.seconds, strided.workspace_bytes)
    for kernel, products in ((1, 1), (2, batch)):
        strided, listed = both(kernel)
        launches, elements = 3 * batch // products, 3 * m * n + 2 * k * (m + n)
        assert listed.seconds == pytest.approx(strided.seconds + launches * vendor.launch + batch * elements * vendor.output)
        rows = [4 * products * size for size in (m * n, m * 132, k * 256)]  # k and n up to a multiple of 4
        assert listed.workspace_bytes - strided.workspace_bytes == sum(-(-one // 256) * 256 for one in rows)
    assert both(0)[0].kernel == both(0)[1].kernel == 1, "copies are cheap beside what the others are said to take"
    single = problem(m, n, k, flags=POINTERS)
    assert choice_of(library, single, "sm_90", 132).kernel == 1 and choice_of(library, problem(m, n, k), "sm_90", 132).kernel == 0, "a batch of one, too"


@needs_gcc
def test_arrays_of_pointers_have_no_strides_and_nothing_is_packed_of_them(made):
    """Nor is a batch of them one product of more rows."""
    of = problem(batch=2, stride_c=1, flags=POINTERS)
    assert choice_of(made, of).workspace_bytes > 0 and choice_of(made, problem(batch=2, stride_c=1)) == -10
    rows = {"stride_a": 10000, "stride_b": 0, "stride_c": 10000}
    assert choice_of(made, problem(batch=64, flags=POINTERS, **rows)).seconds > 10 * choice_of(made, problem(batch=64, **rows)).seconds
    packed = sized(Packed)
    call = ctypes.byref(of), ctypes.c_char(b"b"), ctypes.c_void_p(1 << 20), ctypes.c_size_t(1 << 30), None, ctypes.byref(packed)
    assert made("pack", *call) == BAD_FLAGS and made("pack", ctypes.byref(problem()), *call[1:]) == OK
    assert made("gemm_packed", call[0], ctypes.byref(packed), None, ctypes.c_size_t(0), None) == BAD_FLAGS
    for missing, code in (("a", -11), ("b", -12), ("c", -13)):
        assert made("gemm", ctypes.byref(problem(batch=2, flags=POINTERS, **{missing: None})), None, ctypes.c_size_t(0), None) == code
    zero = ctypes.c_float(0)
    assert made("gemm", ctypes.byref(problem(batch=2, flags=POINTERS, a=None, b=None, alpha=ctypes.addressof(zero))), None, ctypes.c_size_t(0), None) == OK
    launched = made["launches"]
    assert made("gemm", ctypes.byref(problem(batch=-1, flags=POINTERS, a=None, b=None, c=None)), None, ctypes.c_size_t(0), None) == OK
    assert made["launches"] == launched


def together_bytes(library: Library, batch: int) -> int:
    return library.kernels[1].built.source.interface.workspace(256, 256, 256, batch).bytes


@needs_gcc
def test_rules_decide_where_there_are_some(tmp_path):
    two = kernels()[:3]
    told = (Rule(at_most={"m": 100, "mn": 5000}, kernel="large"), Rule(at_most={"k": 64}, kernel="sliced"), Rule(kernel="small"))
    rules = [tables.Rules("sm_80", "nn", told)]
    library = Library(tmp_path, two, archs=["sm_80"], emulates=False, arch="sm_80", rules=rules)
    found = [two[choice_of(library, problem(*size)).kernel].label for size in ((100, 50, 999), (100, 51, 64), (101, 1, 65), (4096, 4096, 4096))]
    assert found == ["large", "sliced", "small", "small"]
    assert two[choice_of(library, problem(100, 50, 999, batch=2, stride_a=1, stride_b=1, stride_c=5000)).kernel].label != "large", "rules know no batches"
    # On a GPU that only runs this code nothing else is known.
    assert two[choice_of(library, problem(100, 50, 999), "sm_86").kernel].label == "large"
    with pytest.raises(GemmgenError, match="a kernel that the library does not have"):
        tables.rows(two, name=NAME, finish=(), rules=[tables.Rules("sm_80", "nn", (Rule(kernel="none"),))])


ERRORS = {
    -1: [dict(size=8)], -2: [dict(order=2), dict(transpose_a=2), dict(transpose_b=-1)], -3: [dict(m=-1), dict(m=LARGEST_EXTENT + 1)],
    -4: [dict(n=-1), dict(n=2**40)], -5: [dict(k=-1)], -6: [dict(lda=99), dict(order=1, lda=99), dict(k=0, lda=0)],
    -7: [dict(ldb=99), dict(transpose_b=1, n=50, ldb=99)], -8: [dict(ldc=99), dict(m=0, ldc=0)], -9: [dict(batch=-2)],
    -10: [dict(batch=2, stride_c=9999), dict(batch=3, stride_c=-5), dict(batch=2, ldc=200, stride_c=99 * 200 + 99)], -11: [dict(a=None), dict(order=1, a=None)],
    -12: [dict(b=None)], -13: [dict(c=None), dict(c=None, k=0)], -14: [dict(epilogue=4), dict(epilogue=-1)], -15: [dict(flags=8), dict(flags=15)],
    -16: [dict(kernel=8), dict(kernel=-1), dict(kernel=6), dict(kernel=5)],
}


@needs_gcc
@pytest.mark.parametrize("code", ERRORS, ids=lambda code: str(-code))
def test_arguments_are_checked_and_nothing_is_launched(made, code):
    before = made["launches"], made["fills"]
    for fields in ERRORS[code]:
        of = problem()
        for name, value in fields.items():
            setattr(of, name, value)
        assert made("gemm", ctypes.byref(of), None, ctypes.c_size_t(0), None) == code, fields
    assert (made["launches"], made["fills"]) == before
    assert made.c.lab_gemm(None, None, ctypes.c_size_t(0), None) == -1


@needs_gcc
def test_what_is_not_read_need_not_be_there(made):
    zero = ctypes.c_float(0)
    for fields in (dict(a=None, b=None, alpha=ctypes.addressof(zero)), dict(a=None, b=None, k=0, lda=1), dict(m=0, a=None, b=None, c=None),
                   dict(n=0, a=None, b=None, c=None, ldb=1, ldc=1), dict(batch=-1, a=None, c=None), dict(batch=2, stride_c=10000),
                   dict(batch=2, ldc=200, stride_c=-(99 * 200 + 100))):
        launched = made["launches"]
        assert made("gemm", ctypes.byref(problem(**fields)), None, ctypes.c_size_t(0), None) == OK, fields
        empty = fields.get("m") == 0 or fields.get("n") == 0 or fields.get("batch") == -1
        assert (made["launches"] == launched) == empty
    assert choice_of(made, problem(m=0)).workspace_bytes == 0


@needs_gcc
def test_an_estimate_of_large_products_tells_nothing_of_small_ones(tmp_path):
    """A kernel whose one pass pays where L2 does not hold the operands, and rows are long: small products never get it, however fast it is said to be."""
    once, twice = (solve(loads({
        "problem": dict.fromkeys("mnk", size), "split": {"scheme": "scaled", "promote": 64}, "fragment": {"policy": "wgmma"}, "target": {"gpu": "h200"},
        "tile": {"block": [128, 128, 64], "warp": [64, 128, 64]},
    })) for size in (8192, 1024))
    assert once.launches.splits_whole and not twice.launches.splits_whole
    made = Library(tmp_path, [of_plan("once", once, estimate(once, launch=0.0)), of_plan("twice", twice, estimate(twice))], archs=["sm_90"], emulates=False,
                   arch="sm_90", optimised="-O0")
    least_k, least = once.design.whole_from(once.gpu)
    for size, number in {(64, 64, 64): 1, (4096, 4096, 4096): 0, (16384, 16384, least_k - 1): 1, (16384, 16384, least_k): 0, (64, 64, 8192): 1}.items():
        assert choice_of(made, problem(*size), "sm_90", 132).kernel == number, size
    assert least == once.gpu.rates.l2_mib * 2**18
    assert choice_of(made, problem(64, 64, 64, kernel=1), "sm_90", 132).kernel == 0  # whoever asks for it


@needs_gcc
def test_counters_that_nobody_reads_are_not_set_to_zero(made):
    """By the flag, and in the pool's memory, which nobody sees; what slices of k count by is set to zero all the same."""
    def fills(number: int, flags: int, given: bool) -> tuple[int, int]:
        of = problem(1000, 1000, 1000, kernel=1 + number, flags=flags)
        room = choice_of(made, of, None).workspace_bytes if given else 0
        before, filled = made["fills"], made["filled_bytes"]
        assert made("gemm", ctypes.byref(of), ctypes.c_void_p(4096 if given else None), ctypes.c_size_t(room), None) == OK
        return made["fills"] - before, made["filled_bytes"] - filled

    small, sliced = 0, 2
    assert fills(small, 0, given=True) == (1, 256) and fills(small, 2, given=True) == fills(small, 0, given=False) == (0, 0)
    whole = fills(sliced, 0, given=True)
    assert whole[0] == 1 and fills(sliced, 2, given=True) == fills(sliced, 0, given=False) == (1, whole[1] - 256)


@needs_gcc
@pytest.mark.parametrize("workspace", [(100, 1 << 20), (256, 256), (0, 256)], ids=["misaligned", "small", "NULL with a size"])
def test_a_workspace_is_checked(made, workspace):
    address, nbytes = workspace
    assert made("gemm", ctypes.byref(problem()), ctypes.c_void_p(address or None), ctypes.c_size_t(nbytes), None) == BAD_WORKSPACE


@needs_gcc
def test_sizes_that_need_a_larger_grid_or_more_bytes_than_there_are(made):
    most = LARGEST_EXTENT
    assert choice_of(made, problem(most, most, most)) == TOO_LARGE
    assert choice_of(made, problem(most, most, 1)) == TOO_LARGE
    assert choice_of(made, problem(1, 1, most)).kernel >= 0
    assert choice_of(made, problem(100, 100, 100, batch=2**62, stride_c=10000)) == -10, "beyond what memory can be"


@needs_gcc
def test_a_device_is_asked_once_and_its_code_loaded_once_by_any_number_of_threads(made):
    codes = []

    def work():
        for _ in range(50):
            codes.append(made.c.lab_gemm(ctypes.byref(problem()), ctypes.c_void_p(256), ctypes.c_size_t(1 << 30), None))

    made.current("sm_80", device=3)
    loaded, asked = made["loaded"], made["asked"]
    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert codes == [OK] * 400
    # five kernels for an A100 and that of epilogues, whose code may be there from another device; none of an older GPU, and no fallback
    assert made["loaded"] - loaded <= 6 and made["asked"] - asked == 4
    loaded = made["loaded"]
    assert made("prepare") == OK and made["loaded"] <= loaded + 1
    made.current("sm_80", device=4)
    assert made("prepare") == OK and made["loaded"] <= loaded + 1, "a driver's library is good on every device"
    made.current("sm_80")


@needs_gcc
@pytest.mark.parametrize("way", ["warpgroups, clusters", "residues"])
def test_blocks_that_stay_are_as_many_as_the_device_holds_and_buffers_have_room_for(way, tmp_path):
    plan = plan_of(**WAYS[way])
    library = Library(tmp_path, [of_plan("kernel", plan, None)], archs=["sm_90"], emulates=False)
    room = way == "residues"
    library["version"] = 12029 if room else 12030  # the first that captures launches that overlap into a graph
    for device, units in enumerate((1, 66, plan.gpu.rates.sms, 1000)):
        library.current("sm_90", units, device)
        of = problem(20000, 20000, 64, transpose_a=int(plan.layout[0] == "t"), transpose_b=int(plan.layout[1] == "t"), lda=20000)
        assert library("gemm", ctypes.byref(of), ctypes.c_void_p(256), ctypes.c_size_t(1 << 50), None) == OK
        held = max(1, plan.launches.most_blocks * units // plan.gpu.rates.sms // plan.cluster) * plan.cluster
        assert library["last_blocks"] == (min(held, plan.launches.most_blocks) if room else held)
    overlapping, each = 0 if room else 4, len(interface(plan).launches)
    assert (library["overlapped"], library["launches"]) == (overlapping, 4 * each)
    library["refuses_overlap"] = 1  # a plain launch takes its place
    assert library("gemm", ctypes.byref(of), ctypes.c_void_p(256), ctypes.c_size_t(1 << 50), None) == OK
    assert (library["overlapped"], library["launches"]) == (overlapping, 5 * each)


@needs_gcc
def test_the_current_target(made):
    target = sized(Target)
    made.current("sm_89", units=77, device=5)
    assert made("current_target", ctypes.byref(target)) == OK
    assert (target.arch, target.units) == (b"sm_89", 77)
    made.current("sm_80", device=-1)
    made["gpus"] = 0
    assert made("current_target", ctypes.byref(target)) == NO_CONTEXT == made("prepare")
    made["gpus"] = 1
    assert made("current_target", ctypes.byref(target)) == OK and made["current"] == 0, "a thread that has none gets the first"
    for device, code in ((127, OK), (128, NOT_SERVED)):  # the last device that a library knows
        made.current("sm_80", device=device)
        assert made("current_target", ctypes.byref(target)) == code
    made.current("sm_80")
    target.size = 3
    assert made("current_target", ctypes.byref(target)) == -1 == made("current_target", None)


@needs_gcc
def test_the_drivers_refusals_come_back_and_are_not_kept(tmp_path):
    library = Library(tmp_path, kernels()[:1], archs=["sm_80"], emulates=False, arch="sm_80")
    library["fails_load"] = 999
    assert library("gemm", ctypes.byref(problem()), None, ctypes.c_size_t(0), None) == 999
    assert library.c.lab_error_string(999) == b"a made-up error"
    library["fails_load"] = 0
    assert library("gemm", ctypes.byref(problem()), None, ctypes.c_size_t(0), None) == OK
    assert library("gemm", ctypes.byref(problem(kernel=2)), None, ctypes.c_size_t(0), None) == BAD_KERNEL


@needs_gcc
def test_what_amds_runtime_refuses_half_way_is_given_back(tmp_path):
    """Each call of the first product fails in turn; modules and pools that are left are those of a product in which none did."""
    plan = plan_of(**AMD_WAYS["mfma, row scales"])
    library = Library(tmp_path, [of_plan("kernel", plan, None)], archs=[plan.gpu.arch], platform="hip", emulates=False, arch=plan.gpu.arch)
    transposed = [int(one == "t") for one in plan.layout]
    of = problem(64, 64, 64, transpose_a=transposed[0], transpose_b=transposed[1], epilogue=1)
    call = ctypes.byref(of), None, ctypes.c_size_t(0), None
    codes = []
    library["current"] = 30
    assert library("prepare") == OK  # the driver is open
    for device in range(30):  # on each device another call fails
        library["current"] = device
        modules, pools = library["modules"], library["pools"]
        library.driver.standin_fail(1 + device, 77)
        codes.append(library("gemm", *call))
        library.driver.standin_fail(0, 0)
        library.driver.standin_use(-2)  # what could not be set back is the driver's to tell
        assert library("gemm", *call) == OK
        assert (library["modules"] - modules, library["pools"] - pools, library.driver.standin_mode()) == (2, 1, 0), f"call {device}"
        assert library["taken"] == library["given"]
    assert codes.count(77) > 12 and codes[-1] == OK, "not every call failed once"


@needs_gcc
def test_a_driver_that_is_too_old(tmp_path):
    for version, code in ((11999, NO_DRIVER), (12000, OK)):
        (tmp_path / str(version)).mkdir()
        library = Library(tmp_path / str(version), kernels()[:1], archs=["sm_80"], emulates=False, arch="sm_80")
        library["version"] = version
        assert library("prepare") == code
        assert choice_of(library, problem()).kernel == 0, "a choice for a target asks no driver"
    # Where the driver's file is none of a driver, or is not there, a program goes on and is told.
    (library.folder / "libdriver.so").unlink()  # this process has the file mapped: written over in place, it would crash at exit
    shutil.copy(library.folder / "lib.so", library.folder / "libdriver.so")
    for _ in range(2):
        done = subprocess.run([sys.executable, "-ISc", "import ctypes; print(ctypes.CDLL('./lib.so').lab_prepare())"], cwd=library.folder,
                              capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout) == (0, f"{NO_DRIVER}\n"), done.stderr
        (library.folder / "libdriver.so").unlink(missing_ok=True)


@needs_gcc
def test_every_code_has_words(made):
    texts = [made.c.lab_error_string(code).decode() for code in range(0, -27, -1)]
    assert len(set(texts)) == 27 and texts[0] == "no error"
    assert made.c.lab_error_string(-99) == b"not a code of lab" and made.c.lab_error_string(12345) == b"an error of the CUDA driver"
    assert made.c.lab_version() == 10203 and made.c.lab_abi() == 3
    assert made.c.lab_kernels() == len(made.kernels) and made.c.lab_kernel_name(len(made.kernels)) is None is made.c.lab_kernel_name(-1)


TAKE = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p)
GIVE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p)


@needs_gcc
def test_a_callers_allocator(made):
    seen, address = [], 512
    take = TAKE(lambda user, nbytes, stream: seen.append(("take", user, nbytes, stream)) or address)
    give = GIVE(lambda user, memory, nbytes, stream: seen.append(("give", user, memory, nbytes, stream)))
    of, stream = problem(), ctypes.c_void_p(77)
    nbytes = choice_of(made, of, None).workspace_bytes
    try:
        assert made("set_allocator", take, None, None) == -1 == made("set_allocator", None, give, None)
        assert made("set_allocator", take, give, ctypes.c_void_p(9)) == OK
        assert made("gemm", ctypes.byref(of), None, ctypes.c_size_t(0), stream) == OK
        assert seen == [("take", 9, nbytes, 77), ("give", 9, 512, nbytes, 77)]
        for address in (None, 520):
            assert made("gemm", ctypes.byref(of), None, ctypes.c_size_t(0), stream) == NO_MEMORY
        assert [one[0] for one in seen[2:]] == ["take", "take", "give"]
    finally:
        made("set_allocator", None, None, None)


@needs_gcc
@pytest.mark.parametrize(("argument", "change"), [
    (1, dict(transa=b"x")), (2, dict(transb=b"1")), (3, dict(m=-1)), (4, dict(n=-1)), (5, dict(k=-1)), (6, dict(alpha=None)), (7, dict(a=None)),
    (8, dict(lda=9)), (9, dict(b=None)), (10, dict(ldb=0)), (11, dict(beta=None)), (12, dict(c=None)), (13, dict(ldc=3)),
])
def test_sgemm_tells_the_argument_that_blas_finds_at_fault(made, argument, change):
    one = ctypes.addressof(ONE)
    given = {"transa": b"N", "transb": b"n", "m": 10, "n": 10, "k": 10, "alpha": one, "a": 256, "lda": 10, "b": 256, "ldb": 10, "beta": one, "c": 256,
             "ldc": 10}
    kinds = [ctypes.c_char] * 2 + [ctypes.c_int] * 3 + [ctypes.c_void_p] * 2 + [ctypes.c_int, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p,
                                                                              ctypes.c_int]
    assert made("sgemm", *(kind(value) for kind, value in zip(kinds, given.values())), None) == OK
    assert made("sgemm", *(kind(value) for kind, value in zip(kinds, (given | change).values())), None) == -argument


ONE = ctypes.c_float(1.0)


@needs_gcc
def test_nothing_but_the_functions_of_the_header_is_exported(made):
    file = made.c._name
    found = {line.split()[-1] for line in subprocess.run(["nm", "-D", "--defined-only", file], check=True, capture_output=True, text=True).stdout.splitlines()}
    header = (made.folder / f"{NAME}.h").read_text()
    declared = set(re.findall(rf"LAB_API [\w ]*?\*?({NAME}_\w+)\(", header))
    assert found == declared and len(declared) == 53


@needs_gcc
def test_packed_operands_are_checked(made):
    of, memory = problem(), 1 << 20
    packed = sized(Packed)
    pack = lambda operand, address=memory, nbytes=1 << 30, of=of: made(  # noqa: E731
        "pack", ctypes.byref(of), ctypes.c_char(operand), ctypes.c_void_p(address), ctypes.c_size_t(nbytes), None, ctypes.byref(packed))
    assert pack(b"c") == -19 and pack(b"b", None) == BAD_WORKSPACE == pack(b"b", memory + 8) == pack(b"b", memory, 256)
    assert pack(b"b", of=problem(b=None)) == -12 and pack(b"a", of=problem(a=None)) == -11
    assert pack(b"b", of=problem(batch=2, stride_b=10000, stride_c=10000)) == NOT_SERVED
    assert pack(b"b", of=problem(a=None, c=None, m=0)) == OK, "the other extent is a hint"
    assert pack(b"b") == OK and (packed.rows, packed.columns, packed.format) == (100, 100, packed.format) and packed.format > 0

    def run(of=of, **fields) -> int:
        changed = Packed.from_buffer_copy(packed)
        for name, value in fields.items():
            setattr(changed, name, value)
        return made("gemm_packed", ctypes.byref(of), ctypes.byref(changed), None, ctypes.c_size_t(0), None)

    assert run() == OK and run(of=problem(m=3000)) == OK
    for fields in (dict(rows=99), dict(columns=101), dict(order=1), dict(memory=None), dict(memory=8), dict(bytes=100), dict(format=0), dict(reserved=1)):
        assert run(**fields) == -18, fields
    assert run(size=3) == -1 and run(operand=99) == -19 and run(format=77) == NOT_SERVED
    assert made("gemm_packed", ctypes.byref(of), None, None, ctypes.c_size_t(0), None) == -1


def test_formats_are_shared_where_the_words_are_the_same():
    nn, tn, wide = plan_of(), plan_of(layout="tn"), plan_of(tile={"block": [128, 64, 32], "warp": [64, 32, 32]})
    found = tables.formats([of_plan(label, plan, None) for label, plan in (
        ("nn", nn), ("tn", tn), ("wide", wide), ("deep", plan_of(tile={"block": [64, 64, 64], "warp": [32, 32, 64]})), ("other", plan_of(scheme="markidis")),
        ("inside", plan_of(where="shared")), ("padded", plan_of(rows="padded")),
    )])
    assert found["nn", "a"] == found["tn", "a"] and found["nn", "b"] == found["tn", "b"] == found["wide", "b"]
    assert found["wide", "a"] not in (0, found["nn", "a"]) and found["nn", "a"] != found["nn", "b"]
    assert len({found[label, "b"] for label in ("nn", "deep", "other", "padded")}) == 4
    assert found["inside", "a"] == found["inside", "b"] == 0
    apart = tables.formats([replace(of_plan("nn", nn, None), packs_b=False)])
    assert apart["nn", "b"] == 0 < apart["nn", "a"]


@needs_gcc
def test_a_choice_with_a_beta_has_the_time_that_reading_c_takes(tmp_path):
    """Of both: the bytes of C once, and 2.2 times by the kernel; the kernel stays the same one."""
    plan = plan_of(**WAYS["warpgroups"])
    library = Library(tmp_path, [of_plan("one", plan, estimate(plan))], archs=["sm_90"], emulates=False)
    vendor, beta = tables.sgemm_estimate(plan.gpu), np.float32([1])
    m, n, k = 512, 384, 256
    without = choice_of(library, problem(m, n, k), "sm_90", 132)
    found = choice_of(library, problem(m, n, k, beta=beta.ctypes.data), "sm_90", 132)
    assert found.kernel == without.kernel and found.sgemm_seconds - without.sgemm_seconds == pytest.approx(m * n * vendor.output)
    assert found.seconds - without.seconds == pytest.approx(2.2 * m * n * vendor.output)
    # The kernel of epilogues counts that it reads C, whether or not there is a beta.
    first, second = (choice_of(library, problem(m, n, k, flags=1, alpha=64, beta=at), "sm_90", 132) for at in (None, 128))
    assert first.seconds == second.seconds > without.seconds and second.sgemm_seconds == found.sgemm_seconds


def test_the_vendors_gemm_is_told_of_the_librarys_own_gpus_and_else_of_the_first_of_each_architecture():
    """Seconds by hand: 2 m n k operations at 69.2 % of the FP32 units' peak; elements at 83.5 % of the memory's rate, of A and B 41 % of that time."""
    h200 = tables.sgemm_estimate(GPUS.get("h200"))
    peak = 132 * 128 * 2 * 1980e6
    assert float(h200.seconds(8448, 8192, 8192)) == pytest.approx(
        2 * 8448 * 8192**2 / (0.692 * peak) + 2.14e-6 + (8448 * 8192 + 0.41 * 8192 * (8448 + 8192)) * 4 / 4.008e12, rel=2e-3)
    assert (h200.launch, h200.output, h200.operand) == (2.14e-6, *(float(f"{share * 4 / 4.008e12:.4g}") for share in (1, 0.41)))
    on = {gpu: of_plan(gpu, plan_of(**WAYS["warpgroups"] | {"gpu": gpu}), None) for gpu in ("h100", "h200")}

    def output(*gpus: str) -> float:
        [row] = [line for line in tables._of_architectures([on[gpu] for gpu in gpus]).splitlines() if '"sm_90a"' in line or '"sm_90"' in line]
        return float(re.search(r"\{\{[^}]*, ([^,}]*)\}", row)[1])

    assert output("h200") == output("h200", "h100") == h200.output and output("h100") == output("h100", "h200") == tables.sgemm_estimate(GPUS.get("h100")).output


def test_the_runtime_has_room_for_the_kernel_with_most_buffers_and_parameters_wherever_it_stands():
    """Of fewer, buffers and parameters of a call would lie beyond their arrays."""
    few, many = of_plan("few", plan_of(), None), of_plan("many", plan_of(**WAYS["tiles of k"]), None)
    sources = [one.built.source for one in (few, many)]
    most = {"BUFFERS": [len(one.interface.buffers) for one in sources],
            "PARAMETERS": [max(len(launch.parameters) for launch in one.launches) for one in sources]}
    assert all(first < last for first, last in most.values()), most
    for two in ((few, many), (many, few)):
        text = tables.rows(two, name=NAME, finish=())
        assert {part: int(re.search(rf"MOST_{part} = (\d+)", text)[1]) for part in most} == {part: last for part, (_, last) in most.items()}


def test_what_the_runtime_cannot_launch_is_refused():
    stored = plan_of(scheme="bf16x3_bb16", promote=32)
    with pytest.raises(GemmgenError, match="B or C of another type than A"):
        tables.check(of_plan("stored", stored, None))
    told = of_plan("told", plan_of(), None)
    grouped = replace(told, built=replace(told.built, plan=SimpleNamespace(launches=SimpleNamespace(of_products=True), kind=SimpleNamespace(name="grouped"))))
    with pytest.raises(GemmgenError, match="batch of listed products"):
        tables.check(grouped)
    source = told.built.source
    last = source.interface.launches[-1]
    for parameter in (Parameter("turns", "int", "", argument="turns"), Parameter("m", "float", "", argument="m"), Parameter("lda", "int", "", argument="lda")):
        launches = (*source.interface.launches[:-1], replace(last, lines=(*last.lines, Line((parameter,)))))
        other = replace(source, interface=replace(source.interface, launches=launches))
        with pytest.raises(GemmgenError, match=f"(?s)does not pass.*{parameter.element} {parameter.name} of {last.symbol}"):
            tables.check(replace(told, built=replace(told.built, source=other)))
    tables.check(told)
    far = Parameter("a_status", "unsigned long long", "", pointer=True, region="status", offset=tables.LARGEST_OFFSET + 1)
    with pytest.raises(ValueError, match="too far"):
        tables._parameter(far, source.interface, "told")
    assert tables._parameter(replace(far, offset=tables.LARGEST_OFFSET), source.interface, "told") == "{-1, 0, 65535}"
    with pytest.raises(ValueError, match="one too many: k"):
        tables._product([(one, 1) for one in ("m", "n", "batch", "k_padded", "k")], {})
    assert tables._product([("m", 64), ("split", 2), ("k", 32)], {"split": 5}) == (3, [("m", 64), ("k", 32)])


def test_portable_ptx_is_of_an_old_version_and_for_no_chip_alone():
    text = "//\n// Generated by a compiler\n.version 9.2\n.target sm_75\n.address_size 64\n"
    assert portable_ptx(text) == ".version 6.4\n.target sm_75\n.address_size 64\n"
    for target in ("sm_90a", "sm_100f"):
        with pytest.raises(GemmgenError, match="one chip alone"):
            portable_ptx(f".version 9.2\n.target {target}\n")


def test_the_kernels_of_epilogues_have_code_for_each_architecture_and_ptx_for_all_others(monkeypatch):
    """Without the PTX a call that needs them would fail on every other GPU."""
    def built(source):
        assert {*re.findall(r"\b(finish\w*)\(", source.text)} == {"finish", "finish_f64"}
        return Binary(arch=source.arch, code=source.arch.encode(), assembly=f".version 9.2\n.target {source.arch}\n", kernels={}, compiler="", log="", key="",
                      source_name=source.file_name, from_cache=False, seconds=0.0)

    monkeypatch.setattr(kernel_code, "build", built)
    found = [(one.file, one.arch, one.content) for one in kernel_code.finish_images(["sm_80", "sm_90"], "sm_75", (F32, F64))]
    own = [(f"finish_{arch}.cubin", arch, arch.encode()) for arch in ("sm_80", "sm_90")]
    assert found == [*own, ("finish.ptx", "compute_75", b".version 6.4\n.target sm_75\n\0")]
    assert [one.file for one in kernel_code.finish_images(["gfx942"], None, (F32, F64))] == ["finish_gfx942.co"]
