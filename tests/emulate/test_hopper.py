"""Hopper's asynchronous instructions: mbarriers, bulk copies, wgmma and clusters, in a
persistent kernel whose warps have different jobs, down to the bits; and the same kernel with
faults, each of which must show."""

from __future__ import annotations

import itertools
from functools import cache

import numpy as np
import pytest

import assembled
from gemmgen.emulate import EAGER_LOWEST, LAZY_HIGHEST, SCHEDULES, TOGETHER, Emulator, TensorMap
from gemmgen.emulate.core import units
from gemmgen.errors import EmulationError
from hopper_gemm import (
    CASES,
    HELPERS,
    UNIT,
    Case,
    Problem,
    expected,
    packed,
    random_words,
    swizzled,
    wgmma_function,
)
from ways import covering

EVERY = (*SCHEDULES, TOGETHER)

@cache
def ptx_of(text: str) -> str:
    return assembled.ptx_of(text, "sm_90a")


def launch(case: Case, text: str, schedule):
    """C of the case, what it should be, and the launch's counts."""
    problem = Problem.of(case)
    shape = len(problem.a), len(problem.b)
    with Emulator(ptx_of(text), UNIT, schedule=schedule, source=text, source_name="kernel.cu", processes=1) as machine:
        out = machine.alloc(4 * shape[0] * shape[1], name="c")
        a, b = (machine.upload(array, name=name) for array, name in zip(problem.packed(case), "ab", strict=True))
        stats = machine.launch(
            "k", (case.ctas, 1, 1), (problem.threads, 1, 1), problem.shared_bytes, [a, b, out, *problem.scalars]
        )
        return machine.read(out, np.float32, shape), problem.expected(case), stats


@pytest.mark.parametrize(("name", "schedule"), covering(itertools.product(CASES, EVERY)), ids=lambda value: getattr(value, "name", value))
def test_a_persistent_gemm_to_the_bit(name, schedule):
    case = CASES[name]
    got, want, stats = launch(case, case.text, schedule)
    assert (got == want).all()
    tiles_m, tiles_n = case.tiles
    k_steps = case.steps * case.width // (8 if case.word == "tf32" else 16)
    assert stats.mma == tiles_m * tiles_n * case.groups * 4 * case.n // 8 * k_steps
    assert stats.bank_conflicts == 0


@pytest.mark.parametrize("schedule", EVERY, ids=lambda s: s.name)
def test_strips_hold_whole_clusters(schedule):
    case = Case(cluster=2, ctas=6, tiles=(6, 1), n=16, steps=3)
    with Emulator(ptx_of(case.text), UNIT, schedule=schedule, strip=3, processes=1) as machine:
        a, b = random_words("f16", (6 * 128, 3 * 64), 1), random_words("f16", (16, 3 * 64), 2)
        out = machine.alloc(len(a) * len(b) * 4, name="c")
        arguments = [machine.upload(packed(a, 128, 128), name="a"), machine.upload(packed(b, 16, 128), name="b")]
        shared = case.stages * (128 * (128 + 16) + 16)
        machine.launch("k", (6, 1, 1), (384, 1, 1), shared, [*arguments, out, 6, 1, 3, 2])
        assert (machine.read(out, np.float32, (len(a), len(b))) == expected("f16", a, b, 128)).all()
        with pytest.raises(EmulationError, match="does not hold whole clusters"):
            machine.launch("k", (5, 1, 1), (384, 1, 1), shared, [*arguments, out, 6, 1, 3, 2])


# ---------------------------------------------------------------- faults


def swap(*pairs: tuple[str, str]):
    """An edit that must find what it edits, so that a fault cannot quietly vanish."""

    def edit(text: str) -> str:
        for old, new in pairs:
            assert text.count(old) == 1, f"the fault has nothing to change: {old}"
            text = text.replace(old, new)
        return text

    return edit


WRONG = "wrong numbers"
DEADLOCK = "no warp can go on: a deadlock"
UNFILLED = "copy in flight has not yet filled|nothing has written"
PAIR = Case(cluster=2, ctas=4)
FAULTS = {
    # name: (case, edit, what LAZY_HIGHEST shows, what EAGER_LOWEST shows); None where that one cannot show it
    "stride of B's descriptor": (Case(), swap(("at + A_BYTES, 16, 8 * ROW", "at + A_BYTES, 16, 4 * ROW")), WRONG, WRONG),
    "stride of A's descriptor": (Case(), swap(("at + rows * ROW, 16, 8 * ROW", "at + rows * ROW, 16, 16 * ROW")), WRONG, WRONG),
    "swizzle mode": (Case(), swap((", 1);  // of B", ", 2);  // of B")), WRONG, WRONG),
    "not swizzled": (Case(), swap((", 1);  // of B", ", 0);  // of B")), WRONG, WRONG),
    "consumers never flip the phase": (
        Case(), swap(("s = 0; phase ^= 1; }\n        }\n        wg_wait", "s = 0; }\n        }\n        wg_wait")),
        UNFILLED, DEADLOCK,
    ),
    "the producer never flips the phase": (
        Case(), swap(("s = 0; phase ^= 1; }\n        }\n      }", "s = 0; }\n        }\n      }")),
        "more arrivals", DEADLOCK,
    ),
    "a stage is given free too early": (
        Case(), swap(("if (before >= 0) release(before);\n          before = s;", "release(s);"), ("        release(before);\n", "")),
        None, "overwritten while a wgmma",
    ),
    "no wait before a stage is given free": (
        Case(), swap(("wg_wait<0 ? 0 : 1>();  //", "//")), None, "overwritten while a wgmma",
    ),
    "no wait before the sum is read": (
        Case(), swap(("wg_wait<0>();  // all", "wg_wait<1>();")), *2 * ("read that a wgmma may not have written",),
    ),
    "fragments loaded while they are read": (
        Case(in_registers=True), swap(("wg_wait<1 ? 0 : 1>();  //", "wg_wait<1>();  //")),
        *2 * ("written that a wgmma may not have read",),
    ),
    "no wgmma.fence": (Case(), swap(("if (k == 0) wg_fence();", "")), *2 * ("run ahead of what wrote its registers",)),
    "no fence of the barriers": (Case(), swap(("    fence_init();\n", "")), *2 * ("may not see that it was initialised",)),
    "no __syncthreads after the barriers": (
        Case(), swap(("else __syncthreads();  // barriers", ";  // barriers")), "nothing has initialised", None,
    ),
    "no barrier of the cluster after the barriers": (
        PAIR, swap(("if (CLUSTER > 1) cluster_sync(); else __syncthreads();  //", "__syncthreads();  //")),
        *2 * ("may not be initialised yet",),
    ),
    "no barrier of the cluster before the end": (
        PAIR, swap(("if (CLUSTER > 1) cluster_sync();  // before the end", "")),
        *2 * ("a CTA ends while another one may still be signalling",),
    ),
    "too many bytes expected": (Case(), swap(("STAGE);  // bytes", "STAGE + 16);  // bytes")), DEADLOCK, DEADLOCK),
    "the bytes of one operand expected": (Case(), swap(("STAGE);  // bytes", "B_BYTES);  // bytes")), UNFILLED, DEADLOCK),
    "no wait for a free stage": (Case(), swap(("wait(empty + 8 * s, phase);  // stage", "// stage")), "more arrivals", DEADLOCK),
    "no wait for a filled stage": (Case(), swap(("wait(full + 8 * s, phase);  // stage", "// stage")), UNFILLED, WRONG),
    "multicast to the first only": (PAIR, swap(("(1 << CLUSTER) - 1)", "1)")), DEADLOCK, DEADLOCK),
    "multicast outside the cluster": (PAIR, swap(("(1 << CLUSTER) - 1)", "7)")), *2 * ("one not in the cluster",)),
    "stages given free to oneself only": (
        PAIR, swap(("arrive_cluster(peer(empty + 8 * stage, lane))", "arrive(empty + 8 * stage)")), UNFILLED, WRONG,
    ),
    "stages given free by one CTA's warps": (PAIR, swap(("4 * GROUPS * CLUSTER)", "4 * GROUPS)")), UNFILLED, DEADLOCK),
    "one arrival too many awaited": (Case(), swap(("4 * GROUPS * CLUSTER)", "4 * GROUPS * CLUSTER + 1)")), DEADLOCK, DEADLOCK),
    "more registers than there are": (
        Case(), swap(("fewer_registers<40>();\n", "fewer_registers<144>();\n"), ("more_registers<152>();\n", "more_registers<200>();\n")),
        DEADLOCK, DEADLOCK,
    ),
    "a named barrier for too many": (Case(), swap(('"n"(128 * GROUPS)', '"n"(128 * GROUPS + 128)')), DEADLOCK, DEADLOCK),
    "stages that overlap": (
        Case(), swap(("to = base + s * STAGE;", "to = base + s * (STAGE - 1024);")), UNFILLED, UNFILLED,
    ),
    "a matrix product for some warps": (
        Case(), swap(("            keep = 1;", "            keep = 1; if (warp == 3) break;")), *2 * ("wgmma",),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_caught(name):
    case, edit, *shown = FAULTS[name]
    text = edit(case.text)
    for schedule, expectation in zip(SCHEDULES, shown, strict=True):
        if expectation in (None, WRONG):
            got, want, _ = launch(case, text, schedule)
            assert (got == want).all() == (expectation is None)
            continue
        with pytest.raises(EmulationError, match=expectation):
            launch(case, text, schedule)


def test_a_deadlock_tells_where_each_warp_waits_and_for_what():
    case, edit, *_ = FAULTS["one arrival too many awaited"]
    text = edit(case.text)
    line = next(n for n, each in enumerate(text.splitlines(), 1) if "// stage is free" in each)
    with pytest.raises(EmulationError) as error:
        launch(case, text, LAZY_HIGHEST)
    told = str(error.value)
    assert f"inlined at line {line}, for the phase of parity 0 of the mbarrier at shared memory + 73752 of" in told
    assert "(phase 0, 1 of 9 arrivals pending, 0 bytes pending); warp 1, 2, 3 has ended; warp 4, 5, 6, 7," in told


# ---------------------------------------------------------------- one instruction at a time


def run(body: str, *arguments, out, threads=32, grid=1, cluster=1, shared=4096, schedule=LAZY_HIGHEST, helpers=""):
    """Launch a kernel with `body`; `out` = (dtype, shape) is its first parameter."""
    types = ", ".join(f"const unsigned char* arg{i}" for i in range(len(arguments)))
    size = f"__cluster_dims__({cluster}, 1, 1) " if cluster > 1 else ""
    text = (
        f'{HELPERS}{helpers}extern "C" __global__ void {size}__launch_bounds__({threads}, 1)\n'
        f"k({'u32' if out[0] == np.uint32 else 'float'}* out{', ' if types else ''}{types}) {{\n"
        "  extern __shared__ __align__(1024) unsigned char smem[]; const u32 base = shared_address(smem), bar = base + 2048;\n"
        f"  const int i = threadIdx.x;\n{body}\n}}\n"
    )
    with Emulator(ptx_of(text), UNIT, schedule=schedule, source=text, source_name="kernel.cu", processes=1) as machine:
        result = machine.alloc(int(np.prod(out[1])) * 4, name="out")
        uploaded = [machine.upload(array, name=f"arg{i}") for i, array in enumerate(arguments)]
        machine.launch("k", grid if isinstance(grid, tuple) else (grid, 1, 1), (threads, 1, 1), shared, [result, *uploaded])
        return machine.read(result, *out)


def fails(body: str, match: str, *arguments, **options):
    options.setdefault("out", (np.uint32, 1))
    with pytest.raises(EmulationError, match=match) as error:
        run(body, *arguments, **options)
    return error.value


INIT = "if (i == 0) { barrier_init(bar, %s); fence_init(); } __syncthreads();\n"



@pytest.mark.parametrize("schedule", EVERY, ids=lambda s: s.name)
def test_tokens_counts_and_phases(schedule):
    got = run(INIT % 192 + r"""
  u64 token; u32 done = 2;
  if (i < 32) asm volatile("mbarrier.arrive.shared.b64 %0, [%1], 3;" : "=l"(token) : "r"(bar) : "memory");
  else asm volatile("mbarrier.arrive.shared.b64 %0, [%1], 1;" : "=l"(token) : "r"(bar) : "memory");
  if (i >= 64) asm volatile("mbarrier.arrive.b64 _, [%0];" :: "l"(smem + 2048) : "memory");
  if (i < 32) {
    asm volatile("{\n.reg .pred p;\nL:\nmbarrier.test_wait.shared::cta.b64 p, [%0], %1;\n@!p bra L;\n}" :: "r"(bar), "l"(token) : "memory");
    asm volatile("{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0, 0x989680;\nselp.u32 %0, 1, 0, p;\n}"
      : "=r"(done) : "r"(bar) : "memory");
    out[i] = done;
  }
""", out=(np.uint32, 32), threads=96, schedule=schedule)  # fmt: skip
    assert (got == 1).all()


@pytest.mark.parametrize("schedule", EVERY, ids=lambda s: s.name)
def test_a_try_wait_returns_false_when_nothing_else_can_happen(schedule):
    """A look ahead, after which the same warp does what it looked for."""
    got = run(INIT % 32 + r"""
  u32 done;
  asm volatile("{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0;\nselp.u32 %0, 1, 0, p;\n}"
    : "=r"(done) : "r"(bar) : "memory");
  arrive(bar);
  wait(bar, 0);
  out[i] = done;
""", out=(np.uint32, 32), schedule=schedule)  # fmt: skip
    assert (got == 0).all()


@pytest.mark.parametrize("schedule", EVERY, ids=lambda s: s.name)
def test_bytes_may_come_before_they_are_expected(schedule):
    data = np.arange(64, dtype=np.uint32)
    got = run(INIT % 2 + r"""
  if (i == 0) {
    arrive(bar);
    copy(base, arg0, 256, bar);
    asm volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], 256;" :: "r"(bar) : "memory");
    asm volatile("mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%0], 16;" :: "r"(bar) : "memory");
    expect(bar, 16);
  }
  wait(bar, 0);
  out[i] = ((u32*)smem)[i];
  asm volatile("cp.async.bulk.prefetch.L2.global [%0], 256;" :: "l"(arg0));
  __syncthreads();
  if (i == 0) asm volatile("mbarrier.inval.shared::cta.b64 [%0];" :: "r"(bar) : "memory");
  __syncthreads();
  ((u32*)smem)[512 + i] = 3;
""", data, out=(np.uint32, 64), threads=64, schedule=schedule)  # fmt: skip
    assert (got == data).all()


@pytest.mark.parametrize("schedule", EVERY, ids=lambda s: s.name)
@pytest.mark.parametrize("kind", [".noinc", ""])
def test_an_arrival_that_waits_for_copies(schedule, kind):
    data = np.arange(64, dtype=np.uint32)
    got = run(INIT % (64 if kind else 1) + r"""
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" :: "r"(base + 4 * i), "l"(arg0 + 4 * i) : "memory");
  asm volatile("cp.async.mbarrier.arrive""" + kind + r""".shared::cta.b64 [%0];" :: "r"(bar) : "memory");
""" + ("" if kind else "  __syncthreads(); if (i == 0) arrive(bar);\n") + r"""
  wait(bar, 0);
  out[i] = ((u32*)smem)[63 - i];
""", data, out=(np.uint32, 64), threads=64, schedule=schedule)  # fmt: skip
    assert (got == data[::-1]).all()


@pytest.mark.parametrize("schedule", EVERY, ids=lambda s: s.name)
def test_named_barriers_that_some_only_arrive_at(schedule):
    """Warp 0 makes, warps 1 and 2 use; names may be registers."""
    got = run(r"""
  u32* box = (u32*)smem;
  const int name = 1 + (int)blockIdx.x;
  if (i < 32) {
    for (int n = 0; n < 3; ++n) {
      if (n) asm volatile("bar.sync 5, 96;" ::: "memory");
      box[i] = 100 * n + i;
      asm volatile("bar.arrive %0, 96;" :: "r"(name) : "memory");
    }
  } else {
    u32 sum = 0;
    for (int n = 0; n < 3; ++n) {
      asm volatile("bar.sync %0, 96;" :: "r"(name) : "memory");
      sum += box[i % 32];
      if (n < 2) asm volatile("bar.arrive 5, 96;" ::: "memory");
    }
    out[blockIdx.x * 64 + i - 32] = sum;
  }
""", out=(np.uint32, (2, 2, 32)), threads=96, grid=2, schedule=schedule)  # fmt: skip
    assert (got == 300 + 3 * np.arange(32)).all()


@pytest.mark.parametrize("schedule", EVERY, ids=lambda s: s.name)
def test_an_elected_lane_waits_while_its_warp_stands_by(schedule):
    data = np.arange(128, dtype=np.uint32)
    got = run(INIT % 1 + r"""
  u32 chosen;
  asm volatile("{\n.reg .pred p;\nelect.sync _|p, 0xffffffff;\nselp.u32 %0, 1, 0, p;\n}" : "=r"(chosen));
  u32 sum = 0;
  for (int n = 0; n < 4; ++n) {
    if (chosen && i < 32) { expect(bar, 128); copy(base, arg0 + 128 * n, 128, bar); wait(bar, n & 1); }
    __syncthreads();
    sum += ((u32*)smem)[i % 32];
    __syncthreads();
  }
  out[i] = sum;
""", data, out=(np.uint32, 64), threads=64, schedule=schedule)  # fmt: skip
    assert (got.reshape(2, 32) == data.reshape(4, 32).sum(0)).all()


@pytest.mark.parametrize("schedule", EVERY, ids=lambda s: s.name)
def test_the_memory_of_a_cluster(schedule):
    got = run(r"""
  u32* mine = (u32*)smem;
  mine[i] = 100 * cluster_rank() + i;
  if (i < 2) mine[40 + i] = 0;
  cluster_sync();
  u32 there = peer(base, cluster_rank() ^ 1), x, rank, blocks, id;
  asm volatile("ld.shared::cluster.u32 %0, [%1];" : "=r"(x) : "r"(there + 4 * i) : "memory");
  asm volatile("red.shared::cluster.add.u32 [%0], 1;" :: "r"(there + 160) : "memory");
  asm volatile("getctarank.shared::cluster.u32 %0, %1;" : "=r"(rank) : "r"(there));
  asm volatile("mov.u32 %0, %%cluster_nctarank;" : "=r"(blocks));
  asm volatile("mov.u32 %0, %%clusterid.x;" : "=r"(id));
  u32* generic; asm volatile("mapa.u64 %0, %1, %2;" : "=l"(generic) : "l"(smem), "r"(cluster_rank() ^ 1));
  if (i == 0) generic[41] = 1000 + id;
  cluster_sync();
  out[blockIdx.x * 32 + i] = x + 1000 * rank + 10000 * blocks + (i == 1 ? mine[40] * 1000000 : 0) + (i == 2 ? mine[41] * 1000000 : 0);
  cluster_sync();
""", out=(np.uint32, (4, 32)), grid=4, cluster=2, schedule=schedule)  # fmt: skip
    for cta in range(4):
        other = cta % 2 ^ 1
        want = 100 * other + np.arange(32) + 1000 * other + 20000
        want[1] += 32 * 1000000
        want[2] += (1000 + cta // 2) * 1000000
        assert (got[cta] == want).all()


def test_where_a_cta_is_in_its_cluster():
    """Clusters lie along x."""
    names = ("cluster_ctaid.x", "cluster_ctaid.y", "clusterid.x", "clusterid.y", "nclusterid.x", "nclusterid.y", "cluster_nctaid.x", "cluster_nctaid.y",
             "cluster_ctarank", "cluster_nctarank")  # fmt: skip
    body = "if (i == 0) { u32 x; const u32 cta = blockIdx.x + 4 * blockIdx.y;" + "".join(
        f'asm volatile("mov.u32 %0, %%{name};" : "=r"(x)); out[{len(names)} * cta + {at}] = x;' for at, name in enumerate(names)) + "}"
    got = run(body, out=(np.uint32, (3, 4, len(names))), grid=(4, 3, 1), cluster=2)
    for y, x in np.ndindex(3, 4):
        assert got[y, x].tolist() == [x % 2, 0, x // 2, y, 2, 3, 2, 1, x % 2, 2]


STORE_ASYNC = """  u32 to = peer(base + 16 * i, cluster_rank() ^ 1), signal = peer(bar, cluster_rank() ^ 1);
  if (i == 0) { barrier_init(bar, 1); fence_init(); expect(bar, 512 + 64); }
  cluster_sync();
  asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%0], {%1, %2, %3, %4}, [%5];"
    :: "r"(to), "r"(i), "r"(i + 100), "r"(i + 200), "r"(1000 * cluster_rank()), "r"(signal) : "memory");
  if (i < 16) asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [%0], %1, [%2];"
    :: "r"(to + 512 - 12 * i), "r"(7 * i), "r"(signal) : "memory");
  wait(bar, 0);
  for (int j = 0; j < 4; ++j) out[160 * blockIdx.x + 4 * i + j] = ((u32*)smem)[4 * i + j];
  out[160 * blockIdx.x + 128 + i] = i < 16 ? ((u32*)smem)[128 + i] : 0;
  cluster_sync();
"""


@pytest.mark.parametrize("schedule", EVERY, ids=lambda s: s.name)
def test_asynchronous_stores_to_another_cta(schedule):
    got = run(STORE_ASYNC, out=(np.uint32, (4, 160)), grid=4, cluster=2, schedule=schedule)
    i = np.arange(32)
    for cta in range(4):
        assert (got[cta, :128].reshape(32, 4).T == [i, i + 100, i + 200, 1000 * (cta % 2 ^ 1) + 0 * i]).all()
        assert (got[cta, 128:144] == 7 * i[:16]).all()


@pytest.mark.parametrize(("before", "after", "match"), [
    ('"r"(to), "r"(i), ', '"r"(to + 4), "r"(i), ', "an access of 16 bytes is not aligned"),
    ('"r"(1000 * cluster_rank()), "r"(signal)', '"r"(1000 * cluster_rank()), "r"(bar)', "an asynchronous store signals an mbarrier of another CTA"),
    ("peer(base + 16 * i,", "peer(base + 4000 + 16 * i,", "an access of 16 bytes reaches outside shared memory"),
    ("fence_init();", "", "may not see that it was initialised"),
    ("  wait(bar, 0);\n", "", "a read of memory that nothing has written"),
])  # fmt: skip
def test_what_an_asynchronous_store_must_not_do(before, after, match):
    assert STORE_ASYNC.count(before) == 1
    fails(STORE_ASYNC.replace(before, after), match, out=(np.uint32, (2, 160)), grid=2, cluster=2)


ONE = INIT % 1 + "if (i == 0) { %s }\n"
ERRORS = {
    "misaligned": ('barrier_init(bar + 4, 1);', "an mbarrier is not aligned"),
    "made of nothing": ("arrive(bar + 8);", "nothing has initialised"),
    "made twice": ("barrier_init(bar, 1);", "where one is alive"),
    "too many": ("barrier_init(bar + 8, 1 << 20);", "cannot count so many arrivals"),
    "bytes": ('expect(bar, 1 << 20);', "cannot count so many bytes"),
    "stored to": ("((u32*)smem)[512] = 0;", "a write touches an mbarrier"),
    "loaded from": ("out[0] = ((u32*)smem)[513];", "a read touches an mbarrier"),
    "a copy's size": ("expect(bar, 20); copy(base, arg0, 20, bar);", "size of a bulk copy"),
    "half a grain": ("expect(bar, 24); copy(base, arg0, 24, bar);", "size of a bulk copy"),
    "a copy's target": ("copy(base + 8, arg0, 16, bar);", "target of a bulk copy is not aligned"),
    "a copy's source": ("copy(base, arg0 + 8, 16, bar);", "source of a bulk copy is not aligned"),
    "a copy's end": ("copy(base, arg0, 512, bar);", "reaches outside its buffer"),
    "a copy's room": ("copy(base + 4096 - 16, arg0, 32, bar);", "reaches outside shared memory"),
    "a copy onto an mbarrier": ("copy(bar, arg0, 16, bar);", "a write touches an mbarrier"),
    "a copy nobody waits for": ("expect(bar, 16); copy(base, arg0, 16, bar);", "ends while a copy into its shared memory"),
    "a prefetch's size": ('asm volatile("cp.async.bulk.prefetch.L2.global [%0], 20;" :: "l"(arg0));', "size of a bulk copy"),
    "a prefetch's end": ('asm volatile("cp.async.bulk.prefetch.L2.global [%0], 512;" :: "l"(arg0));', "reaches outside its buffer"),
    "a copy from beyond": ("copy(base, arg0 + 256, 16, bar);", "reaches outside its buffer"),
    "no such CTA": ("arrive_cluster(peer(bar, 1));", "a CTA that is not in the cluster"),
    "registers": ('asm volatile("setmaxnreg.dec.sync.aligned.u32 24;");', "not reached by all lanes"),
}  # fmt: skip


@pytest.mark.parametrize("name", ERRORS)
def test_what_a_barrier_or_copy_must_not_do(name):
    statement, match = ERRORS[name]
    fails(ONE % statement, match, np.arange(64, dtype=np.uint32))


@pytest.mark.parametrize("fence", ["fence_init();", "fence_async();"])
def test_either_fence_shows_an_mbarrier_to_the_asynchronous_proxy(fence):
    body = "if (i == 0) { barrier_init(bar, 1); FENCE expect(bar, 128); copy(base, arg0, 128, bar); } __syncthreads(); wait(bar, 0); out[i] = ((u32*)smem)[i];"
    data = np.arange(32, dtype=np.uint32)
    assert (run(body.replace("FENCE", fence), data, out=(np.uint32, 32)) == data).all()
    fails(body.replace("FENCE", ""), "may not see that it was initialised", data)


def test_a_copy_into_the_last_bytes_of_shared_memory():
    last = "expect(bar, 16); copy(base + 4096 - 16, arg0, 16, bar); wait(bar, 0); out[0] = ((u32*)smem)[1023];"
    assert run(ONE % last, np.arange(64, dtype=np.uint32), out=(np.uint32, 1)) == 3


def test_a_cta_that_has_ended_cannot_be_reached():
    fails("""
  if (i == 0) { barrier_init(bar, 1); fence_init(); }
  cluster_sync();
  if (i == 0) {
    if (cluster_rank() == 0) wait(bar, 0);
    arrive_cluster(peer(bar, cluster_rank() ^ 1));
  }
""", "has ended", grid=2, cluster=2, schedule=LAZY_HIGHEST)  # fmt: skip


@pytest.mark.parametrize(("fence", "end", "match"), [
    ("", "cluster_sync();", "may not see that it was initialised"), ("fence_init();", "", "while another one may still be signalling"),
    ("fence_init();", "cluster_sync();", None),
])
def test_an_arrival_at_another_ctas_mbarrier(fence, end, match):
    body = f"""
  if (i == 0) {{ barrier_init(bar, 2); {fence} }}
  cluster_sync();
  if (i == 0 && cluster_rank() == 0) arrive_cluster(peer(bar, 1));
  {end}
  if (i == 0) out[blockIdx.x] = 1;
"""
    if match:
        fails(body, match, out=(np.uint32, 2), grid=2, cluster=2)
    else:
        assert (run(body, out=(np.uint32, 2), grid=2, cluster=2) == 1).all()


def test_what_one_thread_of_a_cluster_forgets():
    fails('asm volatile("barrier.cluster.wait.aligned;");', "where it has not arrived", grid=2, cluster=2)
    fails('asm volatile("barrier.cluster.arrive;\\nbarrier.cluster.arrive;");', "arrives at the cluster's barrier twice", grid=2, cluster=2)
    fails('asm volatile("barrier.cluster.arrive;");', "ends between its arrival at the cluster's barrier and the wait", grid=2, cluster=2)


@pytest.mark.parametrize("mask", [1, 2, 3])
def test_a_multicast_reaches_the_ctas_of_its_mask_alone(mask):
    data = np.arange(32, dtype=np.uint32) + 9
    got = run(f"""
  const bool mine = {mask} >> cluster_rank() & 1;
  if (i == 0) {{ barrier_init(bar, 1); fence_init(); }}
  if (!mine) ((u32*)smem)[i] = 7;
  cluster_sync();
  if (i == 0 && mine) expect(bar, 128);
  if (i == 0 && cluster_rank() == 0)
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1], 128, [%2], %3;"
      :: "r"(base), "l"(arg0), "r"(bar), "h"((unsigned short){mask}) : "memory");
  if (mine) wait(bar, 0);
  cluster_sync();
  u32 rank; asm volatile("getctarank.shared::cluster.u32 %0, %1;" : "=r"(rank) : "r"(base));
  out[32 * blockIdx.x + i] = ((u32*)smem)[i] + 1000 * rank;
  cluster_sync();
""", data, out=(np.uint32, (4, 32)), grid=4, cluster=2)  # fmt: skip
    for cta in range(4):
        assert (got[cta] == (data if mask >> cta % 2 & 1 else 7) + 1000 * (cta % 2)).all()


@pytest.mark.parametrize(("barrier", "mask", "match"), [
    ("bar", 0, "names no CTA"), ("bar", 4, "names no CTA"), ("peer(bar, 1)", 3, "signals an mbarrier of another CTA than it goes to"),
])
def test_a_multicast_must_name_ctas_of_the_cluster_and_an_mbarrier_beside_its_target(barrier, mask, match):
    fails(ONE % f"""asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1], 128, [%2], %3;"
  :: "r"(peer(base, 0)), "l"(arg0), "r"({barrier}), "h"((unsigned short){mask}) : "memory");""", match, np.zeros(32, np.uint32), cluster=2, grid=2)


def test_registers_move_one_way():
    fails('asm volatile("setmaxnreg.inc.sync.aligned.u32 96;\\nsetmaxnreg.inc.sync.aligned.u32 40;");', "to fewer registers than the thread has", threads=128)
    for number in (16, 28, 264):
        with pytest.raises(EmulationError, match="cannot have so many registers"):
            run(f'asm volatile("setmaxnreg.inc.sync.aligned.u32 {number};");', out=(np.uint32, 1), threads=128)
    fails('asm volatile("setmaxnreg.inc.sync.aligned.u32 96;\\nsetmaxnreg.dec.sync.aligned.u32 104;");', "to more registers than the thread has", threads=128)
    same = "".join(f'asm volatile("setmaxnreg.{action}.sync.aligned.u32 96;");' for action in ("inc", "inc", "dec"))
    assert (run(f"{same} out[i] = i;", out=(np.uint32, 128), threads=128) == np.arange(128)).all()


@pytest.mark.parametrize(("left", "enough"), [(88, True), (96, False)])
@pytest.mark.parametrize("schedule", [LAZY_HIGHEST, EAGER_LOWEST], ids=lambda s: s.name)
def test_registers_are_taken_when_others_have_given_them_back(left, enough, schedule):
    """Four groups of 128 threads begin with 128 each; one wants 40 more, and asks before or after another gives."""
    body = f"""
  if (i < 128) asm volatile("setmaxnreg.inc.sync.aligned.u32 168;"); else if (i < 256) asm volatile("setmaxnreg.dec.sync.aligned.u32 {left};");
  out[i] = i;
"""
    if enough:
        assert (run(body, out=(np.uint32, 512), threads=512, schedule=schedule) == np.arange(512)).all()
    else:
        fails(body, DEADLOCK, out=(np.uint32, 512), threads=512, schedule=schedule)


# ---------------------------------------------------------------- wgmma by itself


def product(word: str, a, b, c=None):
    c = np.zeros((len(a), len(b)), np.float32) if c is None else c
    return units.mma(UNIT, word, a[None], b[None].transpose(0, 2, 1), c[None])[0]


STORE = """
  for (int r = 0; r < N / 2; ++r)
    out[(16 * (i / 32) + i % 32 / 4 + 8 * (r / 2 % 2)) * N + i % 4 * 2 + r % 2 + r / 4 * 8] = d[r];
"""


def fill(fence: str = "fence_async();") -> str:
    """All of both arguments into shared memory by ordinary stores, a from 0 and b from 8192 on."""
    return f"""
  for (int j = i; j < 512; j += 128) {{ ((uint4*)smem)[j] = ((const uint4*)arg0)[j]; ((uint4*)smem)[512 + j] = ((const uint4*)arg1)[j]; }}
  {fence}
  __syncthreads();
"""


def padded(array: np.ndarray) -> np.ndarray:
    flat = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    return np.pad(flat, (0, 8192 - len(flat)))


def units_of(words: np.ndarray) -> np.ndarray:
    """`[rows, k]` words as 8 rows of 16 bytes each, k-neighbours first."""
    width = 16 // words.itemsize
    return np.ascontiguousarray(words.reshape(-1, 8, words.shape[1] // width, width).transpose(0, 2, 1, 3))


@pytest.mark.parametrize("schedule", EVERY, ids=lambda s: s.name)
@pytest.mark.parametrize("signs", [(1, 1), (-1, 1), (-1, -1)])
def test_operands_that_are_not_swizzled(schedule, signs):
    a, b = random_words("bf16", (64, 32), 3), random_words("bf16", (24, 32), 4)
    got = run("constexpr int N = 24; float d[12];" + fill() + """
  for (int r = 0; r < 12; ++r) d[r] = r;
  wg_fence();
  for (int k = 0; k < 2; ++k) multiply(d, descriptor(base + 256 * k, 128, 512, 0), descriptor(base + 8192 + 256 * k, 128, 512, 0), 1);
  wg_commit();
  wg_wait<0>();
""" + STORE, padded(units_of(a)), padded(units_of(b)), out=(np.float32, (64, 24)), threads=128, shared=16384,
        schedule=schedule, helpers=wgmma_function("bf16", 24, signs=signs))  # fmt: skip
    column, row = np.arange(24), np.arange(64)[:, None]
    c = (column // 8 * 4 + row // 8 % 2 * 2 + column % 2).astype(np.float32)
    a = a ^ np.uint16(0x8000 if signs[0] * signs[1] < 0 else 0)
    assert (got == product("bf16", a, b, c)).all()


@pytest.mark.parametrize("schedule", EVERY, ids=lambda s: s.name)
@pytest.mark.parametrize("swizzle", [0, 32, 64, 128])
def test_operands_that_are_not_k_major(swizzle, schedule):
    a, b = random_words("f16", (64, 32), 3), random_words("f16", (128, 32), 4)

    def blocks(words: np.ndarray) -> np.ndarray:
        """`[rows, k]` as `[rows / width][k][width]`, each swizzled, 16 bytes wide where not."""
        width = (swizzle or 16) // 2
        turned = np.ascontiguousarray(words.reshape(-1, width, 32).transpose(0, 2, 1)).view(np.uint8)
        flat = turned.reshape(-1, 2 * width)
        return swizzled(flat, swizzle) if swizzle else flat

    mode, row = {0: 0, 32: 3, 64: 2, 128: 1}[swizzle], swizzle or 16
    eight, next_rows = 8 * row, 32 * row  # bytes to the next 8 k, and to the next rows
    offsets = f"{eight}, {next_rows}" if not swizzle else f"{next_rows}, {eight}"
    step = 2 * eight
    got = run("constexpr int N = 128; float d[64];" + fill() + f"""
  wg_fence();
  for (int k = 0; k < 2; ++k)
    multiply(d, descriptor(base + {step} * k, {offsets}, {mode}), descriptor(base + 8192 + {step} * k, {offsets}, {mode}), k);
  wg_commit();
  wg_wait<0>();
""" + STORE, padded(blocks(a)), padded(blocks(b)), out=(np.float32, (64, 128)), threads=128, shared=16384,
        schedule=schedule, helpers=wgmma_function("f16", 128, turned=(1, 1)))  # fmt: skip
    assert (got == product("f16", a, b)).all()


@pytest.mark.parametrize("kind, enough", [
    ("proxy.async", True), ("proxy.async.shared::cta", True), ("proxy.async.global", False), ("acq_rel.gpu", False), (None, False),
])  # fmt: skip
def test_ordinary_stores_need_a_fence_before_the_asynchronous_proxy_reads(kind, enough):
    fence = f'asm volatile("fence.{kind};" ::: "memory");' if kind else ""
    a, b = random_words("f16", (64, 16), 3), random_words("f16", (8, 16), 4)
    body = "constexpr int N = 8; float d[4];" + fill(fence) + """
  wg_fence();
  multiply(d, descriptor(base, 128, 256, 0), descriptor(base + 8192, 128, 256, 0), 0);
  wg_commit();
  wg_wait<0>();
""" + STORE  # fmt: skip
    arguments = padded(units_of(a)), padded(units_of(b))
    options = {"out": (np.float32, (64, 8)), "threads": 128, "shared": 16384, "helpers": wgmma_function("f16", 8)}
    if enough:
        assert (run(body, *arguments, **options) == product("f16", a, b)).all()
    else:
        fails(body, "read by the asynchronous proxy that an ordinary store wrote", *arguments, **options)


def test_lanes_that_a_guarded_instruction_leaves_out_execute_the_next_one():
    """It is executed by none; what follows reads a sum that a wgmma still has, in all."""
    a, b = random_words("f16", (64, 16), 3), random_words("f16", (8, 16), 4)
    fails("constexpr int N = 8; float d[4];" + fill() + """
  wg_fence();
  multiply(d, descriptor(base, 128, 256, 0), descriptor(base + 8192, 128, 256, 0), 0);
  wg_commit();
  asm volatile("{\\n.reg .pred p; .reg .b32 r;\\nsetp.eq.u32 p, %1, 128;\\n@p mov.b32 r, 1;\\nadd.f32 %0, %0, 0f00000000;\\n}" : "+f"(d[0]) : "r"(i));
  wg_wait<0>();
""" + STORE, "read that a wgmma may not have written", padded(units_of(a)), padded(units_of(b)), out=(np.float32, (64, 8)), threads=128,
        shared=16384, helpers=wgmma_function("f16", 8))  # fmt: skip


@pytest.mark.parametrize(("allowed", "part"), [(1, 1), (1, 0), (0, 1)])
def test_what_a_wait_leaves_may_still_be_read(allowed, part):
    """Of two products the second one's operand must stay until a wait covers it, too."""
    a, b = random_words("f16", (64, 16), 3), random_words("f16", (16, 16), 4)
    body = "constexpr int N = 8; float d[4], e[4];" + fill() + f"""
  wg_fence();
  multiply(d, descriptor(base, 128, 256, 0), descriptor(base + 8192, 128, 256, 0), 0);
  wg_commit();
  multiply(e, descriptor(base, 128, 256, 0), descriptor(base + 8192 + 256, 128, 256, 0), 0);
  wg_commit();
  wg_wait<{allowed}>();
  __syncthreads();
  if (i == 0) ((u32*)smem)[2048 + 64 * {part}] = 5;
  wg_wait<0>();
  for (int r = 0; r < 4; ++r) d[r] += e[r];
""" + STORE
    options = {"out": (np.float32, (64, 8)), "threads": 128, "shared": 16384, "helpers": wgmma_function("f16", 8), "schedule": EAGER_LOWEST}
    if allowed and part:
        fails(body, "overwritten while a wgmma", padded(units_of(a)), padded(units_of(b)), **options)
    else:
        want = product("f16", a, b[:8]) + product("f16", a, b[8:])
        assert (run(body, padded(units_of(a)), padded(units_of(b)), **options) == want).all()


@pytest.mark.parametrize("first", [32, 64, 96])
def test_the_warps_of_a_group_must_agree_on_descriptors(first):
    a, b = random_words("f16", (64, 16), 3), random_words("f16", (16, 16), 4)
    fails("constexpr int N = 8; float d[4];" + fill() + f"""
  wg_fence();
  multiply(d, descriptor(base, 128, 256, 0), descriptor(base + 8192 + (i < {first} ? 0 : 256), 128, 256, 0), 0);
  wg_commit();
  wg_wait<0>();
""" + STORE, "execute different wgmma", padded(units_of(a)), padded(units_of(b)), out=(np.float32, (64, 8)), threads=128,
        shared=16384, helpers=wgmma_function("f16", 8))  # fmt: skip


SUM = "constexpr int N = 8; float d[4] = {1, 1, 1, 1};" + fill() + """
  wg_fence();
  multiply(d, descriptor(base, 128, 256, 0), descriptor(base + 8192, 128, 256, 0), blockIdx.x);
  wg_commit();
  wg_wait<0>();
  out += 512 * blockIdx.x;
""" + STORE


@pytest.mark.parametrize(("before", "after", "problem"), [
    ("", "", None), ("wg_fence();", "if (blockIdx.x == 0) wg_fence();", "run ahead of what wrote its registers"),
    ("8192, 128, 256, 0)", "8192, 128, 256, 0) | 4ull << 49", "a base offset is not supported"),
])  # fmt: skip
def test_a_sum_begins_from_zero_in_one_cta_and_from_ones_in_another(before, after, problem):
    a, b = random_words("f16", (64, 16), 3), random_words("f16", (8, 16), 4)
    arguments = padded(units_of(a)), padded(units_of(b))
    options = {"out": (np.float32, (2, 64, 8)), "threads": 128, "grid": 2, "shared": 16384, "helpers": wgmma_function("f16", 8)}
    if problem:
        fails(SUM.replace(before, after), problem, *arguments, **options)
    else:
        assert (run(SUM, *arguments, **options) == [product("f16", a, b), product("f16", a, b, np.ones((64, 8), np.float32))]).all()


@pytest.mark.parametrize("written", [4, 1, 0])
def test_a_product_is_added_to_what_its_registers_hold_now(written):
    """One of four sums is changed between two products. Of sums that some or all were never written, none is added to."""
    a, b = random_words("f16", (64, 16), 3), random_words("f16", (8, 16), 4)
    body = "constexpr int N = 8; float d[4];" + fill() + f"""
  for (int r = 0; r < {written}; ++r) d[r] = 1;
#pragma unroll 1
  for (int turn = 0; turn < 2; ++turn) {{
    wg_fence();
    multiply(d, descriptor(base, 128, 256, 0), descriptor(base + 8192, 128, 256, 0), 1);
    wg_commit();
    wg_wait<0>();
    d[2] += 4;
  }}
""" + STORE
    arguments = padded(units_of(a)), padded(units_of(b))
    options = {"out": (np.float32, (64, 8)), "threads": 128, "shared": 16384, "helpers": wgmma_function("f16", 8)}
    if written < 4:
        fails(body, "adds to a register that was never written", *arguments, **options)
        return
    right = np.ones((64, 8), np.float32)
    for _ in range(2):
        right = product("f16", a, b, right)
        right[np.arange(64) // 8 % 2 == 1, ::2] += 4
    assert (run(body, *arguments, **options) == right).all()


# ---------------------------------------------------------------- tensor maps


MAPPED = r"""
struct alignas(64) Map { char opaque[128]; };
extern "C" __global__ void __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(128, 1)
k(const __grid_constant__ Map map, u32* out, int x, int y, int z) {
  extern __shared__ __align__(1024) unsigned char smem[];
  const u32 base = shared_address(smem), bar = base + 8192;
  if (threadIdx.x == 0) { barrier_init(bar, 1); fence_init(); }
  if (CLUSTER > 1) cluster_sync(); else __syncthreads();
  if (threadIdx.x == 0) {
    asm volatile("prefetch.tensormap [%0];" :: "l"(&map));
    expect(bar, BYTES);
    if (cluster_rank() == 0)
      asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes" MANY
        " [%0], [%1, {%2, %3, %4}], [%5]" MASK ";" :: "r"(base), "l"(&map), "r"(x), "r"(y), "r"(z), "r"(bar), "h"((unsigned short)3) : "memory");
  }
  wait(bar, 0);
  for (int i = threadIdx.x; i < BYTES / 4; i += 128) out[blockIdx.x * (BYTES / 4) + i] = ((const u32*)smem)[i];
  if (CLUSTER > 1) cluster_sync();
}
"""


@pytest.mark.parametrize("schedule", EVERY, ids=lambda s: s.name)
@pytest.mark.parametrize("swizzle", [0, 32, 64, 128])
@pytest.mark.parametrize("cluster", [1, 2])
def test_boxes_of_a_tensor(cluster, swizzle, schedule):
    width, rows, planes = (swizzle or 48) // 2, 12, 2
    tensor = np.arange(3 * 20 * 72, dtype=np.uint16).reshape(3, 20, 72)
    nbytes = 2 * width * rows * planes
    many = ("", "") if cluster == 1 else (".multicast::cluster", ", %6")
    text = f'#define CLUSTER {cluster}\n#define BYTES {nbytes}\n#define MANY "{many[0]}"\n#define MASK "{many[1]}"\n{HELPERS}{MAPPED}'
    for x, y, z in [(8, 3, 1), (-8, -2, 2), (72 - width // 2, 15, 0)]:
        with Emulator(ptx_of(text), UNIT, schedule=schedule, source=text, source_name="kernel.cu", processes=1) as machine:
            source = machine.upload(tensor, name="tensor")
            out = machine.alloc(nbytes * cluster, name="out")
            box = TensorMap(source, 2, (72, 20, 3), (144, 2880), (width, rows, planes), swizzle)
            assert TensorMap.decode(box.encode()).box == box.box
            machine.launch("k", (cluster, 1, 1), (128, 1, 1), 8208, [box.encode(), out, x, y, z])
            got = machine.read(out, np.uint8, (cluster, rows * planes, 2 * width))
        framed = np.zeros((9, 80, 300), np.uint16)  # the tensor among the zeros around it
        framed[3:6, 30:50, 100:172] = tensor
        want = framed[3 + z :][:planes, 30 + y :][:, :rows, 100 + x :][..., :width]
        want = np.ascontiguousarray(want).reshape(rows * planes, -1).view(np.uint8)
        assert (got == (swizzled(want, swizzle) if swizzle else want)).all()


def test_maps_a_gpu_would_not_take():
    for arguments in [
        (2, (64, 8), (136,), (64, 8), 64), (2, (64, 8), (128,), (64, 8), 64), (2, (64, 8), (128,), (32, 300), 64),
        (2, (64, 8), (), (32, 8), 0), (2, (64,), (), (4,), 0), (2, (64,), (), (8,), 48),
    ]:  # fmt: skip
        with pytest.raises(EmulationError, match="tensor map"):
            TensorMap(1 << 36, *arguments)
    with pytest.raises(EmulationError, match="not one of the emulator's"):
        text = f'#define CLUSTER 1\n#define BYTES 128\n#define MANY ""\n#define MASK ""\n{HELPERS}{MAPPED}'
        with Emulator(ptx_of(text), UNIT, processes=1) as machine:
            out = machine.alloc(128, name="out")
            machine.launch("k", (1, 1, 1), (128, 1, 1), 8208, [bytes(128), out, 0, 0, 0])
    for edit, box, problem in (
        ("", ((64, 8), (128,), (64, 1), 0), "the tensor map has other dimensions"), ("", ((64, 8, 1), (128, 1024), (8, 1, 1), 32), "does not fill lines"),
        (" + 64", ((64, 8, 1), (128, 1024), (64, 1, 1), 0), "target of a bulk copy is not aligned"),
    ):  # fmt: skip
        wrong = text.replace('"r"(base), "l"(&map)', f'"r"(base{edit}), "l"(&map)')
        with pytest.raises(EmulationError, match=problem), Emulator(ptx_of(wrong), UNIT, processes=1) as machine:
            source, out = machine.upload(np.zeros(1024, np.uint8), name="tensor"), machine.alloc(128, name="out")
            machine.launch("k", (1, 1, 1), (128, 1, 1), 8208, [TensorMap(source, 2, *box).encode(), out, 0, 0, 0])
