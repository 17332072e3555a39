"""tcgen05 of pairs of CTAs in the emulator (`cta_group::2`), by the kernel of tests/unit/test_tcgen05_instructions.py made one of two CTAs, and by faults."""

from __future__ import annotations

import re

import numpy as np
import pytest

from gemmgen.catalog.unit import UNITS
from gemmgen.emulate import SCHEDULES, TOGETHER, Emulator
from gemmgen.emulate.core.memory import Fault
from gemmgen.emulate.ptx.isa.tcgen05 import InstructionWord
from gemmgen.emulate.ptx.tensor_memory import TensorMemory
from gemmgen.errors import EmulationError
from test_tcgen05_instructions import KERNEL, ROW, X, descriptor, operands

MEET = "barrier.cluster.arrive;\nbarrier.cluster.wait;"


def changed(text: str, *pairs: tuple[str, str]) -> str:
    for before, after in pairs:
        assert before in text, before
        text = text.replace(before, after)
    return text


# Each CTA has 128 rows of A and 16 of the 32 columns of B. A thread of the first multiplies for both, and tells both by a multicast commit; warps
# of both tell the first one that they have read. The sums' columns 16 to 31 are read instead of the copy of columns 0 to 15.
PAIR = changed(
    KERNEL, ("cta_group::1", "cta_group::2"), ("\n{\n.reg", "\n.reqnctapercluster 2, 1, 1\n{\n.reg .b16 %rs<2>; .reg"),
    ("mov.u32 %r2, smem;", "mov.u32 %r2, smem;\nmov.u16 %rs1, 3;\nmov.u32 %r21, %cluster_ctarank;\nmov.u32 %r22, 0;"),
    ("add.s64 %rd3, %rd1, %rd2;", "mad.wide.u32 %rd3, %r21, 4608, %rd1;\nadd.s64 %rd3, %rd3, %rd2;"), ("bar.sync 0;", MEET),
    ("[%r2+4616], 4;", "[%r2+4616], 8;"), ("add.s64 %rd5, %rd4, %rd5;", "add.s64 %rd5, %rd4, %rd5;\nmad.wide.u32 %rd5, %r21, 24576, %rd5;"),
    ("[%r7+16], {", "[%r7+32], {"), ("[%r2+4624], 32;", "[%r2+4624], 64;"), ("%r6, 32;", "%r6, 64;"),
    ("one.shared::cluster.b64 [%r2+4608]", "one.shared::cluster.multicast::cluster.b64 [%r2+4608], %rs1"),
    ("@%p5 mbarrier.arrive.shared.b64 _, [%r2+4616];",
     "add.s32 %r20, %r2, 4616;\nmapa.shared::cluster.u32 %r20, %r20, %r22;\n@%p5 mbarrier.arrive.shared::cluster.b64 _, [%r20];"),
    ("$ISSUE:\n", "$ISSUE:\nsetp.ne.u32 %p6, %r21, 0;\n@%p6 bra $END;\n"),
)
WORD = ROW.instruction_word.value(256, 32)


def drawn(seed=0):
    rng = np.random.default_rng(seed)
    return rng.integers(-4, 5, (256, 16)).astype(np.float16), rng.integers(-4, 5, (32, 16)).astype(np.float16)


A, B = drawn()


def sums(ptx=PAIR, schedule=TOGETHER, told=WORD, pairs=1):
    """[256, 3, 16]: columns 0 to 15 and 16 to 31 of the first product, columns 0 to 15 of both."""
    with Emulator(ptx, UNITS.get("blackwell"), processes=1, schedule=schedule) as machine:
        both = np.concatenate([operands(A[128 * rank : 128 * rank + 128], B[16 * rank : 16 * rank + 16]) for rank in range(2)])
        given, out = machine.upload(both, name="operands"), machine.alloc(256 * 192, name="sums")
        machine.launch("k", (2 * pairs, 1, 1), (160, 1, 1), 4640, [given, out, descriptor(0), descriptor(4096), told])
        return machine.read(out, np.float32, (256, 3, 16))


@pytest.mark.parametrize("schedule", [*SCHEDULES, TOGETHER], ids=lambda one: one.name)
def test_a_pair_multiplies_256_rows(schedule):
    right = A.astype(np.float32) @ B.astype(np.float32).T
    assert np.array_equal(sums(schedule=schedule, pairs=2), np.stack([right[:, :16], right[:, 16:], 2 * right[:, :16]], 1))


ALLOC = "tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [%r2+4624], 64;"
COMMIT = "tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%r2+4608], "
READ = "tcgen05.fence::before_thread_sync; // read\n"
ONLY_FIRST, ONLY_SECOND = "setp.eq.u32 %p8, %r21, 0;\n@%p8 ", "setp.ne.u32 %p8, %r21, 0;\n@%p8 "
FIRST = "$FIRST:\nmbarrier.try_wait.parity.shared::cta.b64 %p4, [%r2+4608], 0;\n@!%p4 bra $FIRST;\n"
FAULTS = {
    "the second CTA is not told": ("mov.u16 %rs1, 3;", "mov.u16 %rs1, 1;", "deadlock"),
    "only the second CTA is told": ("mov.u16 %rs1, 3;", "mov.u16 %rs1, 2;", "deadlock"),
    "a third CTA is told": ("mov.u16 %rs1, 3;", "mov.u16 %rs1, 7;", "names no CTA, or one not in the cluster"),
    "the other CTA's barrier without multicast": (
        f"{COMMIT}%rs1; // first", "mapa.shared::cluster.u32 %r20, %r2, 1;\n" + COMMIT.replace("multicast::cluster.", "").replace("%r2+", "%r20+")[:-2] + ";",
        "arrives at an mbarrier of another CTA"),
    "the second CTA multiplies": ("setp.ne.u32 %p6, %r21, 0;", "setp.eq.u32 %p6, %r21, 0;", "issued by the second of them"),
    "the second CTA takes no tensor memory": (ALLOC, ONLY_FIRST + ALLOC, "not allocated|never reach|deadlock"),
    "CTAs do not meet before the first product": (f"// taken\n{MEET}\ntcgen05.fence::after_thread_sync; // taken", "// taken\nbar.sync 0;\n"
        "tcgen05.fence::after_thread_sync; // taken", "not allocated|nothing has initialised|may not be initialised|need not be allocated|nothing has written"),
    "CTAs do not meet before they end": (f"bar.warp.sync -1;\n{MEET}", "bar.warp.sync -1;\nbar.sync 0;", "given back that another warp need not have read yet"),
    "the second CTA's warps tell themselves that they have read": (
        "mov.u32 %r22, 0;\n", "mov.u32 %r22, %r21;\n", "deadlock|more arrivals"),
    "nobody waits for the second CTA's reads": ("[%r2+4616], 8;", "[%r2+4616], 4;", "need not have read yet|deadlock"),
    "no fence before the second CTA says that it has read": (READ, ONLY_FIRST + READ, "need not have read yet.*all threads of warp . of CTA 1 of the pair"),
    "the second CTA's operands are no matter of the other proxy": (
        "fence.proxy.async.shared::cta;", ONLY_FIRST + "fence.proxy.async.shared::cta;", "read by the asynchronous proxy that an ordinary store wrote"),
    "the second CTA's operands are overwritten": (
        "and.b32 %r7, %r1, 96;\n", ONLY_SECOND + "st.shared.b32 [%r2], %r6;\nand.b32 %r7, %r1, 96;\n", "overwritten while|asynchronous proxy"),
    "the second CTA does not wait for the sums": (FIRST, f"{ONLY_SECOND}bra $GONE;\n{FIRST}$GONE:\n", "known to be done|nothing has written"),
    "halves of B swapped": ("mad.wide.u32 %rd3, %r21, 4608, %rd1;\n",
        "xor.b32 %r20, %r21, 1;\nsetp.gt.u32 %p8, %r1, 127;\n@!%p8 mov.u32 %r20, %r21;\nmad.wide.u32 %rd3, %r20, 4608, %rd1;\n", "wrong numbers"),
    "the second CTA is told after it has ended": (  # warps 0 and 4 of the first meet, which the second's have not to
        "$OUT:\n", "$OUT:\nsetp.ne.u32 %p8, %r21, 0;\n@%p8 ret;\nand.b32 %r20, %r3, 3;\nsetp.ne.u32 %p8, %r20, 0;\n@%p8 ret;\nbar.sync 4, 64;\n"
        f"setp.ne.u32 %p8, %r1, 128;\n@%p8 ret;\n{COMMIT}%rs1;\n", "remote access to a CTA that has ended"),
    "the second CTA keeps its tensor memory": (
        "tcgen05.dealloc.", ONLY_FIRST + "tcgen05.dealloc.", "ends while tensor memory is allocated"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_of_a_pair_is_found(name):
    before, after, problem = FAULTS[name]
    assert PAIR.count(before) == 1
    right, found = sums(), []
    for schedule in SCHEDULES:
        try:
            found += [] if np.array_equal(sums(PAIR.replace(before, after), schedule), right) else ["wrong numbers"]
        except EmulationError as error:
            found.append(str(error))
    assert any(re.search(problem, one, re.DOTALL) for one in found), found


@pytest.mark.parametrize("m, n", [(128, 32), (256, 16), (256, 48), (256, 272)])
def test_extents_that_a_pair_does_not_have(m, n):
    with pytest.raises(Fault, match="other extents") as fault:
        InstructionWord.decode("kind::f16", ROW.instruction_word.value(m, n), 2)
    assert fault.value.needs == "256 rows and 32 to 256 columns, a multiple of 32"
    assert InstructionWord.decode("kind::f16", WORD, 2).n == 32


@pytest.mark.parametrize(("ctas", "said"), [(1, ""), (3, ".reqnctapercluster 3, 1, 1\n")])
def test_a_pair_lies_in_one_cluster(ctas, said):
    with Emulator(PAIR.replace(".reqnctapercluster 2, 1, 1\n", said), UNITS.get("blackwell"), processes=1) as machine:
        out = machine.alloc(256 * 192, name="sums")
        with pytest.raises(EmulationError, match=f"(?s)a pair of CTAs does not lie in one cluster.*clusters of {ctas}"):
            machine.launch("k", (2 * ctas, 1, 1), (160, 1, 1), 4640, [out, out, 0, 0, WORD])


def test_each_cta_of_a_pair_has_lanes_and_allocations_of_its_own():
    """A product needs the columns of both, and writes both; a warp of the second CTA reads the second CTA's lanes."""
    memory, every = TensorMemory(4, 2), np.arange(256)
    assert memory.allocate(0, 64, "there") == 448
    memory.allocate(4, 32, "there")
    assert memory.span(448, 64, 0) == slice(448, 512) and memory.span(480, 32) == slice(480, 512)
    with pytest.raises(Fault, match="not allocated"):
        memory.span(448, 32)
    memory.fence_before(every)
    memory.meet(np.arange(8))
    memory.fence_after(every)
    memory.begin(32, slice(480, 496), False, "there")
    memory.data[128 + 32 : 128 + 64, 480] = 7
    memory.hear(every, memory.commit(32))
    memory.fence_after(every)
    for warp, number in ((1, 0), (5, 7)):
        assert (memory.load(warp, np.arange(32 * warp, 32 * warp + 32), 32 << 16 | 480, 1, "here") == number).all()
    memory.store(6, np.arange(192, 224), 64 << 16 | 481, np.ones((1, 32), np.uint32), "here")
    assert memory.load(2, np.arange(64, 96), 64 << 16 | 481, 1, "here").shape == (1, 32)  # what warp 6 stores are other lanes
    with pytest.raises(Fault, match="given back that another warp need not have read yet") as fault:
        memory.free(np.arange(128, 160), 480, 32)
    assert "read by warp 1 of CTA 0 of the pair" in fault.value.got
    for each, kept in ((0, "64 columns from 448 on"), (1, "32 columns from 480 on")):
        with pytest.raises(Fault, match="ends while") as fault:
            memory.check_end(each)
        assert fault.value.got == kept


HANDED_ON = f"""$END:
bar.warp.sync -1;
setp.ne.u32 %p8, %r3, 0;
@%p8 bra $OTHERS;
tcgen05.st.sync.aligned.32x32b.x16.b32 [%r6+48], {X};
tcgen05.wait::st.sync.aligned;
$OTHERS:
tcgen05.fence::before_thread_sync;
bar.sync 3;
tcgen05.fence::after_thread_sync;
@%p3 bra $LOADED;
tcgen05.ld.sync.aligned.32x32b.x16.b32 {X}, [%r6+48];
tcgen05.wait::ld.sync.aligned;
$LOADED:
"""


def test_a_ctas_own_barrier_concerns_its_own_warps():
    """In either CTA warp 0 stores columns and warp 4, which has the same lanes, loads them after a barrier of the CTA."""
    assert np.array_equal(sums(PAIR.replace("$END:\n", HANDED_ON), SCHEDULES[0]), sums())
    with pytest.raises(EmulationError, match="tensor memory is read that nothing has written"):
        sums(PAIR.replace("$END:\n", HANDED_ON.replace("bar.sync 3;\n", "")), SCHEDULES[1])
