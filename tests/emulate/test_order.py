"""The order of global memory: what a GPU may see late must be waited for, whatever the schedule.

Each fault is a change of a kernel's text that still compiles, and that no GPU at hand need ever punish.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from test_sabotage import swap

from gemmgen.catalog.unit import UNITS
from gemmgen.emulate import EAGER_LOWEST, LAZY_HIGHEST, NOT_MODELLED, TOGETHER, Emulator
from gemmgen.errors import EmulationError
from gemmgen.render import render
from gemmgen.run import gemm
from gemmgen.run.emulator import EmulatorDevice
from gemmgen.solve import solve
from gemmgen.spec import loads
from gemmgen.verify import oracles
from assembled import assembled, ptx_of
from ways import SMALL_GROUPS, plan_of

EVERY = (LAZY_HIGHEST, EAGER_LOWEST, TOGETHER)
HIDDEN = "another CTA wrote, and that nothing has made visible to this one"
EARLY = "another CTA wrote, and that this one may have read before it was there"
BEFORE = "that the kernel before, which may still run, writes"


# ---------------------------------------------------------------- the generator's kernels


def portable_slices():
    return solve(loads({
        "split": {"scheme": "ootomo", "promote": 64}, "tile": {"block": [32, 32, 32], "warp": [16, 16, 32], "split_k": 2},
        "pipeline": {"stages": 3}, "fragment": {"policy": "mma"}, "target": {"gpu": "a100"},
    }))  # fmt: skip


PLANS = {
    "slices": portable_slices,
    "slices on wgmma": lambda: plan_of(**dict(SMALL_GROUPS, split_k=2)),
    "overlapping": lambda: plan_of(**SMALL_GROUPS),
    "overlapping, mixed": lambda: plan_of(**dict(SMALL_GROUPS, where="mixed")),
}
FENCE, WAIT = "__threadfence();", 'asm volatile("griddepcontrol.wait;" ::: "memory");'


def last(old: str, new: str):
    """An edit of the last occurrence only."""

    def edit(text: str) -> str:
        assert old in text, f"the fault has nothing to change: {old}"
        head, _, tail = text.rpartition(old)
        return head + new + tail

    return edit


FAULTS = {
    # name: (plan, edit, complaint)
    "no fences": ("slices", swap(FENCE, ";"), HIDDEN),
    "fences of the block": ("slices", swap(FENCE, "__threadfence_block();"), HIDDEN),
    "no fence after the stores": ("slices", swap(FENCE, ";", 1), HIDDEN),
    "a fence of the block after the stores": ("slices", swap(FENCE, "__threadfence_block();", 1), HIDDEN),
    "no fence before the loads": ("slices", last(FENCE, ";"), EARLY),
    "a fence of the block before the loads": ("slices", last(FENCE, "__threadfence_block();"), EARLY),
    "arrivals counted for the block": ("slices", swap("atomicAdd(arrived + block, 1u)", "atomicAdd_block(arrived + block, 1u)"), "CTA's scope"),
    "one thread's fence": ("slices", swap(FENCE, "if (threadIdx.x == 0) __threadfence();", 1), HIDDEN),
    "fences of the block, wgmma": ("slices on wgmma", swap(FENCE, "__threadfence_block();"), HIDDEN),
    "no fence after the stores, wgmma": ("slices on wgmma", swap(FENCE, ";", 1), HIDDEN),
    "no wait for the split pass": ("overlapping", swap(WAIT, ";"), BEFORE),
    "no wait for the split pass, mixed": ("overlapping, mixed", swap(WAIT, ";"), BEFORE),
}  # fmt: skip


@cache
def planned(name: str):
    return PLANS[name]()


def outcomes(name: str, edit=lambda text: text) -> list:
    """C, or the emulator's complaint, under every schedule."""
    plan = planned(name)
    source = render(plan)
    source = replace(source, text=edit(source.text))
    binary = assembled(source)
    problem = oracles.permutation(plan)
    found = []
    device = EmulatorDevice(plan, source, binary, processes=1)
    for schedule in EVERY:
        device.set_schedule(schedule)
        try:
            found.append(gemm(device, plan, source, problem.a, problem.b).c)
        except EmulationError as error:
            found.append(str(error))
        device.release()
    return found


@pytest.mark.parametrize("name", FAULTS)
def test_what_may_come_late_is_missed(name):
    plan, edit, complaint = FAULTS[name]
    for told in outcomes(plan, edit):
        assert isinstance(told, str) and complaint in told, told


@pytest.mark.parametrize("name", ["slices", *(pytest.param(name, marks=pytest.mark.long) for name in list(PLANS)[1:])])
def test_the_right_kernels_give_the_same_bits(name):
    want = oracles.permutation(planned(name)).expected
    for c in outcomes(name):
        assert not isinstance(c, str), c
        assert (c == want).all()


def test_one_fence_behind_the_barrier_serves_the_block():
    """The thread that counts the arrival may fence for all that met it at the barrier before."""
    barrier = "__syncthreads();  // all of this block's part is there, and shared memory is free"

    def edit(text: str) -> str:
        text = swap(FENCE, ";", 1)(text)
        return swap("const u32 before = atomicAdd(", "__threadfence(); const u32 before = atomicAdd(")(text)

    assert barrier in render(planned("slices")).text
    want = oracles.permutation(planned("slices")).expected
    for c in outcomes("slices", edit):
        assert not isinstance(c, str), c
        assert (c == want).all()


# ---------------------------------------------------------------- one instruction at a time

KERNEL = 'extern "C" __global__ void __launch_bounds__(64) k(unsigned* data, unsigned* flag, unsigned* out)'
MESSAGE = KERNEL + """ {
  __shared__ unsigned before;
  data[blockIdx.x * 64 + threadIdx.x] = 7 * threadIdx.x + blockIdx.x;
  __syncthreads();
  if (threadIdx.x == 0) {
    unsigned old;
    RELEASE
    ARRIVE
    ACQUIRE
    before = old;
  }
  __syncthreads();
  if (before == gridDim.x - 1) {
    unsigned sum = 0;
    for (int i = 0; i < gridDim.x; ++i) sum += READ;
    out[threadIdx.x] = sum;
  }
}"""
PLAIN = "data[i * 64 + threadIdx.x]"


def atom(order: str) -> str:
    return f'asm volatile("atom.{order}.global.add.u32 %0, [%1], 1;" : "=r"(old) : "l"(flag) : "memory");'


def fence(order: str) -> str:
    return f'asm volatile("{order};" ::: "memory");'


MESSAGES = {
    # name: (before the arrival, the arrival, after it, the read; what is complained of, None for nothing)
    "fences": ("__threadfence();", atom("relaxed.gpu"), "__threadfence();", PLAIN, None),
    "fences of the system": ("__threadfence_system();", atom("relaxed.sys"), "__threadfence_system();", PLAIN, None),
    "acquire and release": ("", atom("acq_rel.gpu"), "", PLAIN, None),
    "release, then a fence": ("", atom("release.gpu"), fence("fence.acq_rel.gpu"), PLAIN, None),
    "a fence, then acquire": (fence("fence.acq_rel.gpu"), atom("acquire.gpu"), "", PLAIN, None),
    "released by another instruction": (
        'asm volatile("red.release.gpu.global.add.u32 [%0], 1;" :: "l"(flag + 1) : "memory");', atom("acquire.gpu"), "", PLAIN, None,
    ),
    "relaxed": ("", atom("relaxed.gpu"), "", PLAIN, HIDDEN),
    "acquire alone": ("", atom("acquire.gpu"), "", PLAIN, HIDDEN),
    "release alone": ("", atom("release.gpu"), "", PLAIN, EARLY),
    "acquire and release in the CTA": ("", atom("acq_rel.cta"), "", PLAIN, "CTA's scope"),
    "relaxed in the CTA, between fences": ("__threadfence();", atom("relaxed.cta"), "__threadfence();", PLAIN, "CTA's scope"),
    "a release in the CTA": (fence("fence.acq_rel.cta"), atom("acquire.gpu"), "", PLAIN, HIDDEN),
    "a release in the cluster": (fence("fence.acq_rel.cluster"), atom("acquire.gpu"), "", PLAIN, HIDDEN),
    "an acquire in the CTA": ("", atom("release.gpu"), fence("fence.acq_rel.cta"), PLAIN, EARLY),
    "the fence behind the arrival": ("", atom("relaxed.gpu"), "__threadfence();", PLAIN, EARLY),
    "a fence that only acquires before it": (fence("fence.acquire.gpu"), atom("acquire.gpu"), "", PLAIN, HIDDEN),
    "a fence that only releases behind it": ("__threadfence();", atom("relaxed.gpu"), fence("fence.release.gpu"), PLAIN, EARLY),
    "another block's past the coherent caches": (
        "__threadfence();", atom("relaxed.gpu"), "__threadfence();", "i == blockIdx.x ? 0 : __ldg(data + i * 64 + threadIdx.x)", "coherent caches",
    ),
    "its own past the coherent caches": (
        "__threadfence();", atom("relaxed.gpu"), "__threadfence();", "i == blockIdx.x ? __ldg(data + i * 64 + threadIdx.x) : 0", "coherent caches",
    ),
}  # fmt: skip


def send(text: str, ctas: int = 4, threads: int = 64, **options) -> np.ndarray:
    ptx = ptx_of(text, "sm_90")
    with Emulator(ptx, UNITS.get("hopper"), source=text, source_name="kernel.cu", **options) as machine:
        data, out = machine.alloc(4 * 64 * ctas, name="data"), machine.alloc(4 * 64, name="out")
        machine.launch("k", (ctas, 1, 1), (threads, 1, 1), 0, [data, machine.alloc(8, name="flag", fill=0), out])
        return machine.read(out, np.uint32, (64,))


@pytest.mark.parametrize("name", MESSAGES)
def test_a_message_between_blocks(name):
    release, arrive, acquire, read, complaint = MESSAGES[name]
    text = MESSAGE.replace("RELEASE", release).replace("ARRIVE", arrive).replace("ACQUIRE", acquire).replace("READ", read)
    for options in ({"schedule": schedule, "processes": 1} for schedule in EVERY):
        for strip in (1, 60):
            if complaint is None:
                assert (send(text, strip=strip, **options) == 4 * 7 * np.arange(64) + 6).all()
                continue
            with pytest.raises(EmulationError, match=complaint) as error:
                send(text, strip=strip, **options)
            assert "CTA (" in str(error.value.got) and "kernel.cu:" in str(error.value.got)  # who wrote it, and where


APART = 'if (threadIdx.x >= 64) { WRITE asm volatile("bar.sync 2, 32;" ::: "memory"); asm volatile("bar.sync 2, 32;" ::: "memory"); return; }'


@pytest.mark.parametrize(("write", "edit", "complaint"), [
    ("", ("ACQUIRE", "__threadfence();"), None), ("", ("  if (before ==", "  __threadfence();\n  if (before =="), None), ("", ("  if (before ==", "  if (before =="), EARLY),
    ("data[blockIdx.x * 64 + threadIdx.x - 64] = 1;", ("ACQUIRE", "__threadfence();"), HIDDEN),
])  # fmt: skip
def test_a_barrier_of_two_warps_of_three(write, edit, complaint):
    """What one of the two knows the other one knows; of the third's stores they know nothing."""
    text = MESSAGE.replace("(64)", "(96)").replace("__syncthreads();", 'asm volatile("bar.sync 1, 64;" ::: "memory");').replace("{\n", "{\n" + APART, 1)
    text = text.replace("WRITE", write).replace("RELEASE", "__threadfence();").replace("ARRIVE", atom("relaxed.gpu")).replace("READ", PLAIN)
    text = text.replace(*edit).replace("ACQUIRE", "")
    if write:
        text = text.replace("  data[blockIdx.x * 64 + threadIdx.x] = 7", "  if (threadIdx.x >= 32) data[blockIdx.x * 64 + threadIdx.x] = 7")
    text = text.replace("__launch_bounds__(64)", "__launch_bounds__(96)")
    if complaint:
        with pytest.raises(EmulationError, match=complaint):
            send(text, threads=96, processes=1)
    else:
        assert (send(text, threads=96, processes=1) == 4 * 7 * np.arange(64) + 6).all()


@pytest.mark.parametrize(("first", "back"), [("if (threadIdx.x < 32) ", 0), ("", 32), ("", 0)])
def test_a_fence_publishes_nothing_that_was_stored_behind_the_barrier(first, back):
    """Neither elsewhere, nor where another thread or the same one had stored before it."""
    text = MESSAGE.replace("RELEASE", "__threadfence();").replace("ARRIVE", atom("relaxed.gpu")).replace("ACQUIRE", "__threadfence();").replace("READ", PLAIN)
    late = f"__syncthreads();\n  if (threadIdx.x >= 32) data[blockIdx.x * 64 + threadIdx.x - {back}] = threadIdx.x;\n"
    text = text.replace("__syncthreads();", late, 1).replace("  data[", f"  {first}data[", 1)
    with pytest.raises(EmulationError, match=HIDDEN):
        send(text, processes=1, schedule=LAZY_HIGHEST)


def test_what_other_processes_publish_is_known():
    text = MESSAGE.replace("RELEASE", "__threadfence();").replace("ARRIVE", atom("relaxed.gpu")).replace("ACQUIRE", "__threadfence();")
    good = text.replace("READ", PLAIN)
    assert (send(good, ctas=32, processes=2, strip=4) == 32 * 7 * np.arange(64) + 31 * 16).all()
    with pytest.raises(EmulationError, match=HIDDEN):
        send(good.replace("__threadfence();", ";"), ctas=32, processes=2, strip=4)


STRONG = {
    # how block 0 hands a flag to block 1, in a later strip: (store, load, complaint)
    "relaxed": ("st.relaxed.gpu", "ld.relaxed.gpu", None),
    "volatile": ("st.volatile", "ld.volatile", None),
    "released and acquired": ("st.release.gpu", "ld.acquire.gpu", None),
    "a weak store": ("st", "ld.acquire.gpu", HIDDEN),
    "a weak load": ("st.release.gpu", "ld", EARLY),
    "stored for the CTA": ("st.release.cta", "ld.acquire.gpu", HIDDEN),
    "loaded for the CTA": ("st.release.gpu", "ld.acquire.cta", EARLY),
    "stored for the cluster": ("st.release.cluster", "ld.acquire.gpu", HIDDEN),
    "loaded for the cluster": ("st.release.gpu", "ld.acquire.cluster", EARLY),
}


@pytest.mark.parametrize("name", STRONG)
def test_a_flag_between_blocks(name):
    store, load, complaint = STRONG[name]
    text = KERNEL + """ {
  if (blockIdx.x == 0) asm volatile("%s.global.u32 [%%0], 5;" :: "l"(flag) : "memory");
  else { unsigned x; asm volatile("%s.global.u32 %%0, [%%1];" : "=r"(x) : "l"(flag) : "memory"); out[threadIdx.x] = x; }
}""" % (store, load)
    if complaint:
        with pytest.raises(EmulationError, match=complaint):
            send(text, ctas=2, strip=1, processes=1)
    else:
        assert (send(text, ctas=2, strip=1, processes=1) == 5).all()


@pytest.mark.parametrize(("release", "acquire", "complaint"), [
    ("st.release.gpu", "ld.acquire.gpu", None), ("st.relaxed.gpu", "ld.acquire.gpu", HIDDEN), ("st.release.cta", "ld.acquire.gpu", HIDDEN),
    ("st.release.gpu", "ld.relaxed.gpu", EARLY),
])  # fmt: skip
def test_a_store_that_releases_shows_what_was_stored_before(release, acquire, complaint):
    """And nothing that others stored: block 1 has only read the flag when it releases one of its own, which is no acquire."""
    text = KERNEL + """ {
  if (blockIdx.x == 0) {
    data[threadIdx.x] = 7;
    asm volatile("%s.global.u32 [%%0], 5;" :: "l"(flag) : "memory");
  } else {
    unsigned x;
    asm volatile("%s.global.u32 %%0, [%%1];" : "=r"(x) : "l"(flag) : "memory");
    asm volatile("st.release.gpu.global.u32 [%%0], 6;" :: "l"(flag + 1) : "memory");
    out[threadIdx.x] = x + data[threadIdx.x];
  }
}""" % (release, acquire)
    if complaint:
        with pytest.raises(EmulationError, match=complaint):
            send(text, ctas=2, strip=1, processes=1)
    else:
        assert (send(text, ctas=2, strip=1, processes=1) == 12).all()


def test_a_flag_that_is_set_again_tells_nothing_of_a_later_fence():
    """The fence publishes what the thread stored before the barrier, not the strong store behind it, which another block then reads."""
    text = KERNEL + """ {
  if (blockIdx.x == 0) {
    if (threadIdx.x == 32) flag[0] = 4;
    __syncthreads();
    if (threadIdx.x == 32) asm volatile("st.relaxed.gpu.global.u32 [%0], 5;" :: "l"(flag) : "memory");
    data[threadIdx.x] = 1;
    __syncthreads();
    if (threadIdx.x == 0) __threadfence();
  } else {
    unsigned x;
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(x) : "l"(flag) : "memory");
    out[threadIdx.x] = x + data[threadIdx.x];
  }
}"""
    with pytest.raises(EmulationError, match=EARLY):
        send(text, ctas=2, strip=1, processes=1)


# ---------------------------------------------------------------- dependent launches

TWO = """
extern "C" __global__ void first(unsigned* data) {
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
  if (threadIdx.x) data[blockIdx.x * 64 + threadIdx.x] = threadIdx.x;
}
extern "C" __global__ void second(unsigned* data, unsigned* other, unsigned* out) {
  __shared__ unsigned all;
  __shared__ __align__(16) unsigned four[4];
  const unsigned to = (unsigned)__cvta_generic_to_shared(four);
  if (threadIdx.x == 0) all = 3;
  BODY
}"""
READ = "out[threadIdx.x] = data[threadIdx.x];"
GRID_WAIT = 'asm volatile("griddepcontrol.wait;" ::: "memory");'
BULK = """__shared__ unsigned long long bar; const unsigned b = (unsigned)__cvta_generic_to_shared(&bar);
  asm volatile("mbarrier.init.shared::cta.b64 [%0], 1; fence.mbarrier_init.release.cluster; mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 16;"
    " cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%1], [%2], 16, [%0];" :: "r"(b), "r"(to), "l"(data) : "memory");
  asm volatile("{ .reg .pred p; L: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], 0; @!p bra L; }" :: "r"(b) : "memory");"""


def copy(count: int) -> str:
    """Four words into shared memory, of which so many bytes are taken."""
    return f'asm volatile("cp.async.ca.shared.global [%0], [%1], 16, {count}; cp.async.wait_all;" :: "r"(to), "l"(data) : "memory");'


DEPENDENT = {
    # name: (body of the second kernel, complaint)
    "waits": (GRID_WAIT + READ, None),
    "one thread waits for all": (f"if (threadIdx.x == 0) {GRID_WAIT} __syncthreads(); {READ}", None),
    "one lane waits for its warp": (f"if (threadIdx.x % 32 == 5) {GRID_WAIT} __syncwarp(); {READ}", None),
    "reads something else first": ("unsigned x = other[threadIdx.x];" + GRID_WAIT + "out[threadIdx.x] = data[threadIdx.x] + x;", None),
    "does not wait": (READ, BEFORE),
    "waits behind the read": (READ + GRID_WAIT, BEFORE),
    "one thread waits, and nobody for it": (f"if (threadIdx.x == 0) {GRID_WAIT} {READ}", BEFORE),
    "the last thread waits, and nobody for it": (f"if (threadIdx.x == 63) {GRID_WAIT} {READ}", BEFORE),
    "one of two warps waits for both": (
        'if (threadIdx.x >= 64) { asm volatile("bar.sync 2, 32;" ::: "memory"); return; } if (threadIdx.x == 0) '
        f'{GRID_WAIT} asm volatile("bar.sync 1, 64;" ::: "memory"); {READ}', None,
    ),
    "adds to what the first one stores": ("atomicAdd(data + threadIdx.x, 1u);" + GRID_WAIT + READ, "kernel before"),
    "writes what the first one writes": ("data[threadIdx.x] = 1;" + GRID_WAIT + READ, "is written that the kernel before"),
    # of data's first four words the first kernel writes all but the first
    "adds to what atomics of the first one set": ("atomicAdd(data + threadIdx.x, 0u);" + GRID_WAIT + READ, None),
    "reads what atomics of the first one set": (READ, BEFORE),
    "copies words of which it needs the first": (f"if (threadIdx.x == 0) {copy(4)} {GRID_WAIT}" + READ, None),
    "copies words of which it needs two": (f"if (threadIdx.x == 0) {copy(8)} {GRID_WAIT}" + READ, BEFORE),
    "copies in bulk": (f"if (threadIdx.x == 0) {{ {BULK} }} {GRID_WAIT}" + READ, BEFORE),
    "copies": (
        'asm volatile("cp.async.ca.shared.global [%0], [%1], 4; cp.async.wait_all;" :: "r"((unsigned)__cvta_generic_to_shared(&all)), '
        '"l"(data + threadIdx.x) : "memory"); out[threadIdx.x] = all;', BEFORE,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", DEPENDENT)
def test_a_launch_that_overlaps_the_one_before(name):
    body, complaint = DEPENDENT[name]
    text = TWO.replace("BODY", body)
    if "atomics" in name:
        text = text.replace("data[blockIdx.x * 64 + threadIdx.x] = threadIdx.x;", "atomicExch(data + blockIdx.x * 64 + threadIdx.x, threadIdx.x);")
    ptx = ptx_of(text, "sm_90")
    for overlaps in (True, False):
        with Emulator(ptx, UNITS.get("hopper"), source=text, source_name="kernel.cu", processes=1) as machine:
            data, out = machine.alloc(4 * 128, name="data", fill=0), machine.alloc(4 * 64, name="out")
            other = machine.alloc(4 * 64, name="other", fill=0)
            machine.launch("first", (2, 1, 1), (64, 1, 1), 0, [data])
            machine.alloc(1 << 23, name="more")  # global memory grows, and what was written is still known
            second = "second", (1, 1, 1), (96 if "two warps" in name else 64, 1, 1), 0, [data, other, out]
            if overlaps and complaint:
                with pytest.raises(EmulationError, match=complaint) as error:
                    machine.launch(*second, overlaps=True)
                assert "entry first" in error.value.got
                continue
            machine.launch(*second, overlaps=overlaps)
            if name not in ("copies", "writes what the first one writes", "adds to what the first one stores"):
                assert (machine.read(out, np.uint32, (64,)) == np.arange(64)).all()


def test_part_of_a_word_that_two_blocks_share():
    """What a block wrote itself it may read, even where another one wrote the rest of the word."""
    text = 'extern "C" __global__ void k(unsigned short* data, unsigned* flag, unsigned* out) {' + """
  data[2 * threadIdx.x + blockIdx.x] = 3;
  if (blockIdx.x == 1) out[threadIdx.x] = data[2 * threadIdx.x + 1];
}"""
    assert (send(text, ctas=2, processes=1) == 3).all()


def test_a_report_can_say_what_is_not_modelled():
    assert NOT_MODELLED and all(isinstance(each, str) for each in NOT_MODELLED)
