"""Triangular systems in a library's runtime: memory, predicted seconds and refusals are those of the rounds that the kind has. Nothing is launched."""

from __future__ import annotations

import ctypes
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from standin import GCC, LARGEST_EXTENT, Library
from test_library_runtime import choice_of, estimate, of_plan
from ways import plan_of

from gemmgen.kinds import solves
from gemmgen.kinds.solves import Trsm
from gemmgen.library.candidates import between, of_routine
from gemmgen.library.file import library_from
from gemmgen.library.made import estimates
from gemmgen.library.structures import Problem, sized
from gemmgen.library.tables import _bound, sgemm_estimate
from gemmgen.model import time
from gemmgen.solve import solve
from gemmgen.spec import loads
from gemmgen.verify.bound import SAFETY

pytestmark = pytest.mark.skipif(GCC is None, reason="a C compiler builds the library")
OK, BAD_A, BAD_B, BAD_C, TOO_LARGE = 0, -11, -12, -13, -20
UNITS = 108


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Library:
    """Of the left, and of the right, where maxima of rows lie in the workspace, too; and of the left of an upper triangle, which takes batches."""
    tile = {"block": [32, 128, 32], "warp": [32, 32, 32]}  # so that m and n are not rounded up alike
    plans = [replace(plan_of(layout=layout, scheme=scheme, tile=tile), kind=Trsm("lower", side)) for side, layout, scheme in (
        ("left", "nn", "ootomo"), ("right", "nt", "scaled"))]
    plans.append(solve(loads({"problem": {"kind": "trsm", "uplo": "upper", "matrices": 2}, "split": {"scheme": "ootomo", "where": "prepass", "promote": 64},
                              "tile": tile, "pipeline": {"stages": 3}, "target": {"gpu": "a100"}})))
    plans.append(solve(loads({"problem": {"kind": "trsm", "type": "f64"}, "split": {"scheme": "residues12"}, "target": {"gpu": "a100"}})))
    return Library(tmp_path_factory.mktemp("systems"), [of_plan(f"system_{at}", plan, estimate(plan)) for at, plan in enumerate(plans)],
                   archs=["sm_80"], emulates=False, arch="sm_80")


def asked(unknowns: int, sides: int, right: int = 0, **more) -> Problem:
    """Row major, lower; on the right its A is stored transposed."""
    m, n = (sides, unknowns) if right else (unknowns, sides)
    usual = {"lda": max(unknowns, 1), "ldb": max(n, 1), "ldc": max(n, 1), "a": 1 << 20, "b": 1 << 24, "c": 1 << 24}
    return sized(Problem, kind=6, m=m, n=n, side=right, transpose_a=right, uplo=right, **{**usual, **more})


@pytest.mark.parametrize("right", [0, 1])
def test_a_system_s_memory_is_that_of_its_largest_products(made, right):
    interface = made.kernels[right].built.source.interface
    for unknowns in (1, 255, 256, 257, 512, 513, 767, 768, 769, 1024, 1025, 1300, 1537, 2048, 2049, 5000, 8191):
        for sides in (1, 70):
            chosen = choice_of(made, asked(unknowns, sides, right))
            m, n = (sides, unknowns) if right else (unknowns, sides)
            assert (chosen.kernel, chosen.workspace_bytes) == (right, interface.workspace(m, n, unknowns).bytes), unknowns


@pytest.mark.parametrize("right", [0, 1])
@pytest.mark.parametrize(("unknowns", "sides", "batch"), [(200, 70, 0), (1300, 70, 0), (5000, 9000, 3), (2000, 1, 0), (2000, 2, 0), (2000, 4, 1), (2000, 4, 2), (2000, 5, 0), (4, 70, 0)])
def test_a_system_takes_as_long_as_its_rounds(made, right, unknowns, sides, batch):
    """Each block of unknowns a launch, and each product by the kernel's estimate; the vendor half of a product and what unknowns wait for one another."""
    kernel = made.kernels[right]
    launch, wave, output = solves.block_seconds(time.rate_numbers(kernel.built.plan.gpu, kernel.built.plan.scheme.leading))
    size = (sides, unknowns) if right else (unknowns, sides)
    wanted = 0.0
    for one in kernel.built.plan.kind.rounds(*size, 0, 1.0, 0.0, True):
        if one.solves:
            wanted += launch + wave * -(-(-(-sides // solves.TRSM.own.systems)) // UNITS) + output * sides
        else:
            wanted += float(kernel.estimate.model_copy(update={"sms": UNITS}).seconds(one.m, one.n, one.k))
    chosen = choice_of(made, asked(unknowns, sides, right, batch=batch, stride_c=unknowns * sides), units=UNITS)
    assert chosen.seconds == pytest.approx(max(batch, 1) * wanted, rel=1e-3)
    whole = sgemm_estimate(kernel.built.plan.gpu)
    if sides == 1:
        whole = whole.model_copy(update={"step": whole.step * time.VECTOR_SHARE})
    product = float(whole.model_copy(update={"sms": UNITS}).seconds(*size, unknowns, max(batch, 1)))
    # The first 256 k of a product besides; unknowns of a few rows, which the vendor has as columns, wait less; what a batch takes is 2.2 times both.
    waits = 0.2 if right and sides == 1 else 0.35 if right and sides <= 4 and batch < 2 else 1
    vendor = whole.launch + 15e-9 * min(unknowns, 256) + (2.2 if batch > 1 else 1) * ((product - whole.launch) / 2 + waits * 2.7e-7 * unknowns)
    assert chosen.sgemm_seconds == pytest.approx(vendor, rel=1e-3)


def test_rounds_overlap_the_ones_before(tmp_path):
    """But the first one: of three blocks of unknowns and two products the blocks, passes and main kernels behind it."""
    plan = plan_of(gpu="h200", fragment={"policy": "wgmma"}, tile={"block": [64, 64, 64], "warp": [64, 64, 64], "cluster": 2},
                   problem={"kind": "trsm"})
    own = Library(tmp_path, [of_plan("system", plan, estimate(plan))], archs=["sm_90"], emulates=False, arch="sm_90")
    own["version"] = 12030
    for unknowns, later in ((256, 0), (600, 2)):
        before = own["overlapped"]
        assert own("gemm", ctypes.byref(asked(unknowns, 70)), None, ctypes.c_size_t(0), None) == OK
        assert own["overlapped"] - before == 3 * later


def test_an_sm_takes_several_thread_blocks_of_fp64(made):
    """Two of 16 right-hand sides each."""
    kernel = made.kernels[3]
    own = kernel.built.plan.kind.own
    launch, wave, output = solves.block_seconds(time.rate_numbers(kernel.built.plan.gpu, kernel.built.plan.scheme.leading), own)
    for sides, waves in ((2 * 16 * UNITS, 1), (2 * 16 * UNITS + 1, 2)):
        chosen = choice_of(made, asked(200, sides, element=1), units=UNITS)
        assert (chosen.kernel, chosen.seconds) == (3, pytest.approx(launch + wave * waves + output * sides, rel=1e-3))


def together(unknowns: int, sides: int, batch: int, uplo: int = 1, **more) -> Problem:
    """Of the kernel that takes batches, which has the upper triangle."""
    problem = asked(unknowns, sides, batch=batch, stride_a=unknowns**2, stride_b=unknowns * sides, stride_c=unknowns * sides, **more)
    problem.uplo = uplo
    return problem


@pytest.mark.parametrize(("unknowns", "sides", "batch"), [(200, 70, 1), (1300, 70, 40), (5000, 33, 3)])
def test_systems_that_are_solved_together_take_the_launches_of_one(made, unknowns, sides, batch):
    """Each block of unknowns and each product is all systems'; so is the memory."""
    kernel = made.kernels[2]
    launch, wave, output = solves.block_seconds(time.rate_numbers(kernel.built.plan.gpu, kernel.built.plan.scheme.leading))
    wanted = 0.0
    for one in kernel.built.plan.kind.rounds(unknowns, sides, 0, 1.0, 0.0, True):
        if one.solves:
            wanted += launch + wave * -(-(batch * -(-sides // solves.TRSM.own.systems)) // UNITS) + output * sides * batch
        else:
            wanted += float(kernel.estimate.model_copy(update={"sms": UNITS}).seconds(one.m, one.n, one.k, batch))
    chosen = choice_of(made, together(unknowns, sides, batch), units=UNITS)
    assert (chosen.kernel, chosen.seconds) == (2, pytest.approx(wanted, rel=1e-3))
    assert chosen.workspace_bytes == kernel.built.source.interface.workspace(unknowns, sides, unknowns, batch).bytes


@pytest.mark.parametrize("kernel", [0, 2])
def test_what_pointers_tell_is_copied_to_be_solved(made, kernel):
    """Which takes memory, of one system where they are solved one after another, and time."""
    apart, listed = (choice_of(made, together(300, 30, 9, **{"flags": flags} | ({} if kernel else {"uplo": 0}))) for flags in (0, 4))
    assert apart.kernel == listed.kernel == kernel
    copies = sum(-(-4 * rows * columns * (9 if kernel else 1) // 256) * 256 for rows, columns in ((300, 300), (300, 32)))
    assert listed.workspace_bytes - apart.workspace_bytes == copies and listed.seconds > apart.seconds


def test_a_batch_that_is_solved_together_has_no_turns(made):
    assert choice_of(made, together(300, 5, 1 << 20)).kernel == 2
    assert choice_of(made, together(200, 33, 1 << 30)) == TOO_LARGE, "two thread blocks for each system"


def test_b_is_copied_where_it_is_not_c(made):
    """Which takes its time."""
    copied, in_place = (choice_of(made, asked(1300, 2000, c=c)).seconds for c in (1 << 26, 1 << 24))
    assert 1e-6 < copied - in_place < 1e-4


def test_what_is_wrong_with_a_system(made):
    def code(**more) -> int:
        return made("gemm", ctypes.byref(asked(300, 5, **more)), None, ctypes.c_size_t(0), None)

    assert [code(a=None), code(b=None), code(c=None)] == [BAD_A, BAD_B, BAD_C]
    assert [code(right=1, a=None), code(right=1, b=None)] == [BAD_A, BAD_B]
    beta = ctypes.c_float(float("nan"))  # which it has no use for
    assert code(c=1 << 24, beta=ctypes.addressof(beta)) == OK
    assert choice_of(made, asked(300, 5, batch=1 << 20, stride_c=1500)) == TOO_LARGE, "two blocks each"
    assert choice_of(made, asked(200, 5, batch=1 << 20, stride_c=1000)).kernel == 0
    assert choice_of(made, asked(1, LARGEST_EXTENT)).kernel == 0


def test_residuals_have_the_errors_of_substitution_besides(made):
    """Of a block, of each power of two of blocks that serves one; of few unknowns those of few."""
    plain = of_plan("plain", plan_of(layout="nn"), None)
    few, block, many = (choice_of(made, asked(unknowns, 5)) for unknowns in (16, 256, 4096))
    u = 2.0**-24
    for chosen, k, terms in ((few, 16, 16 + 4 + 3), (block, 256, 256 + 4 + 3), (many, 4096, 256 + 4 + 3 * 5)):
        _, error, worst = map(float, _bound(plain.built.plan, ["sm_80"], k)[1:-1].split(", "))
        assert chosen.worst_case == pytest.approx(worst + u * terms, rel=1e-2)
        assert chosen.error == pytest.approx(np.hypot(error, SAFETY * u * np.sqrt(min(k, 256))), rel=1e-2)


def test_a_routine_s_estimate_is_that_of_its_products():
    """As the kernel of a plain product with the same decisions takes, of the sizes that rounds have."""
    library = library_from({"name": "lab", "gpus": ["h200"], "layouts": ["nn"], "kernels_at_most": 1, "sizes": [[1024, 2048, 1024]], "routines": ["trsm"],
                            "use": [{"split": {"scheme": "ootomo"}, "fragment": {"policy": "wgmma"}, "tile": {"block": [128, 128, 64]}}], "fallback": False})
    one = of_routine(library, library.gpus[0], {"kind": "trsm", "layout": "nn"})[0]
    products = between(one)
    assert (products.plan.kind.name, products.plan.block, products.symbols) == ("gemm", one.plan.block, one.symbols) and one.plan.kind.solves
    [told] = estimates(SimpleNamespace(sizes=library.sizes, kernels=[SimpleNamespace(candidate=one, plan=one.plan)]))
    sizes = np.array([(512, 2048, 512, 1), (256, 2048, 256, 1)])
    assert np.allclose(told.seconds(*sizes.T[:3]), products.seconds_of(sizes), rtol=0.15)
