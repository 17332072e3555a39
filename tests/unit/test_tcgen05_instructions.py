"""tcgen05 and tensor memory in the emulator, by a kernel of some lines of PTX and by single faults put into it."""

from __future__ import annotations

import re

import numpy as np
import pytest

from gemmgen.catalog.conversion import decode
from gemmgen.catalog.fragment import FRAGMENTS
from gemmgen.catalog.unit import UNITS
from gemmgen.emulate import SCHEDULES, TOGETHER, Emulator
from gemmgen.emulate.core.memory import Fault
from gemmgen.emulate.core.units import dot
from gemmgen.emulate.ptx.isa.tcgen05 import InstructionWord, matrix_descriptor
from gemmgen.emulate.ptx.tensor_memory import TensorMemory
from gemmgen.errors import EmulationError

ROW = FRAGMENTS.get("tcgen05_m128n16k16_f16")
X, R = "{%s}" % ", ".join(f"%x{i}" for i in range(16)), "{%r10, %r11, %r12, %r13}"


def stored(register: str, offset: int) -> str:
    parts = ("{%s}" % ", ".join(f"%{register}{i + j}" for j in range(4)) for i in range(0, 16, 4))
    return "\n".join(f"st.global.v4.b32 [%rd5+{offset + 16 * i}], {part};" for i, part in enumerate(parts))


# Warps 0 to 3 move sums out, a thread of warp 4 multiplies: D = A B, moved out and copied to the columns beside, then D += A B.
KERNEL = f"""
.version 8.7
.target sm_100a
.address_size 64
.extern .shared .align 1024 .b8 smem[];
.visible .entry k(.param .u64 p_operands, .param .u64 p_sums, .param .u64 a_at, .param .u64 b_at, .param .u32 told)
{{
.reg .b32 %r<24>; .reg .b64 %rd<12>; .reg .pred %p<9>; .reg .b32 %x<16>; .reg .b32 %y<16>;
mov.u32 %r1, %tid.x;
mov.u32 %r2, smem;
shr.u32 %r3, %r1, 5;
ld.param.u64 %rd1, [p_operands];
mul.wide.u32 %rd2, %r1, 16;
add.s64 %rd3, %rd1, %rd2;
shl.b32 %r4, %r1, 4;
add.s32 %r5, %r2, %r4;
ld.global.v4.b32 {R}, [%rd3];
st.shared.v4.b32 [%r5], {R};
setp.lt.u32 %p1, %r1, 128;
@%p1 ld.global.v4.b32 {R}, [%rd3+2560];
@%p1 st.shared.v4.b32 [%r5+2560], {R};
fence.proxy.async.shared::cta;
setp.ne.u32 %p2, %r1, 0;
@%p2 bra $MADE;
mbarrier.init.shared.b64 [%r2+4608], 1;
mbarrier.init.shared.b64 [%r2+4616], 4;
fence.mbarrier_init.release.cluster;
$MADE:
setp.ne.u32 %p3, %r3, 4;
@%p3 bra $TAKEN;
tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r2+4624], 32;
tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;
$TAKEN:
tcgen05.fence::before_thread_sync; // taken
bar.sync 0;
tcgen05.fence::after_thread_sync; // taken
ld.shared.b32 %r6, [%r2+4624];
@!%p3 bra $ISSUE;
and.b32 %r7, %r1, 96;
shl.b32 %r7, %r7, 16;
add.s32 %r7, %r7, %r6;
ld.param.u64 %rd4, [p_sums];
mul.wide.u32 %rd5, %r1, 192;
add.s64 %rd5, %rd4, %rd5;
$FIRST:
mbarrier.try_wait.parity.shared::cta.b64 %p4, [%r2+4608], 0;
@!%p4 bra $FIRST;
tcgen05.fence::after_thread_sync; // first
tcgen05.ld.sync.aligned.32x32b.x16.b32 {X}, [%r7];
tcgen05.wait::ld.sync.aligned; // first
{stored("x", 0)}
tcgen05.st.sync.aligned.32x32b.x16.b32 [%r7+16], {X};
tcgen05.wait::st.sync.aligned;
tcgen05.ld.sync.aligned.32x32b.x16.b32 {X.replace("x", "y")}, [%r7+16];
tcgen05.wait::ld.sync.aligned; // copied
{stored("y", 64)}
tcgen05.fence::before_thread_sync; // read
bar.warp.sync -1;
and.b32 %r8, %r1, 31;
setp.eq.u32 %p5, %r8, 0;
@%p5 mbarrier.arrive.shared.b64 _, [%r2+4616];
$SECOND:
mbarrier.try_wait.parity.shared::cta.b64 %p4, [%r2+4608], 1; // by those that move
@!%p4 bra $SECOND;
tcgen05.fence::after_thread_sync; // second
tcgen05.ld.sync.aligned.32x32b.x16.b32 {X}, [%r7]; // second
tcgen05.wait::ld.sync.aligned; // second
{stored("x", 128)}
bra $END;
$ISSUE:
setp.ne.u32 %p6, %r1, 128;
@%p6 bra $END;
ld.param.u64 %rd6, [a_at];
ld.param.u64 %rd7, [b_at];
ld.param.u32 %r9, [told];
setp.ne.u32 %p7, %r1, %r1;
tcgen05.mma.cta_group::1.kind::f16 [%r6], %rd6, %rd7, %r9, %p7; // first
tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r2+4608]; // first
$EMPTIED:
mbarrier.try_wait.parity.shared::cta.b64 %p4, [%r2+4616], 0;
@!%p4 bra $EMPTIED;
tcgen05.fence::after_thread_sync; // emptied
setp.eq.u32 %p7, %r1, %r1;
tcgen05.mma.cta_group::1.kind::f16 [%r6], %rd6, %rd7, %r9, %p7; // second
tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r2+4608]; // second
$DONE:
mbarrier.try_wait.parity.shared::cta.b64 %p4, [%r2+4608], 1; // by the one that multiplies
@!%p4 bra $DONE;
tcgen05.fence::after_thread_sync; // done
$END:
tcgen05.fence::before_thread_sync; // end
bar.warp.sync -1;
bar.sync 0;
tcgen05.fence::after_thread_sync; // end
@%p3 bra $OUT;
tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r6, 32;
$OUT:
ret;
}}"""


def operands(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """A [128, 32 bytes of k] and B [16, 32 bytes of k] as they lie in shared memory: swizzled by 32 bytes."""
    memory = np.zeros(4608, np.uint8)
    for matrix, start in ((a, 0), (b, 4096)):
        for row, chunks in enumerate(np.ascontiguousarray(matrix).view(np.uint8).reshape(len(matrix), 2, 16)):
            for chunk, content in enumerate(chunks):
                at = start + ROW.descriptor.place(row, chunk, 32)
                memory[at : at + 16] = content
    return memory


def descriptor(address: int) -> int:
    return ROW.descriptor.constant(32) | address >> 4


def sums(ptx=KERNEL, schedule=TOGETHER, a=None, b=None, a_at=descriptor(0), b_at=descriptor(4096), told=ROW.instruction_word.value(128, 16), dtype=np.float32,
         grid=1, strip=60):
    """[CTAs, 3, 128, 16]: of the first product, of its copy, of both."""
    a, b = (DEFAULT if a is None else (a, b))
    with Emulator(ptx, UNITS.get("blackwell"), processes=1, schedule=schedule, strip=strip) as machine:
        given, out = machine.upload(operands(a, b), name="operands"), machine.alloc(128 * 192, name="sums")
        machine.launch("k", (grid, 1, 1), (160, 1, 1), 4640, [given, out, a_at, b_at, told])
        return machine.read(out, dtype, (128, 3, 16)).swapaxes(0, 1)


def drawn(dtype, k: int, seed=0):
    rng = np.random.default_rng(seed)
    return rng.integers(-4, 5, (128, k)).astype(dtype), rng.integers(-4, 5, (16, k)).astype(dtype)


DEFAULT = drawn(np.float16, 16)


@pytest.mark.parametrize("schedule", [*SCHEDULES, TOGETHER], ids=lambda one: one.name)
def test_two_products_and_a_copy(schedule):
    first, copy, both = sums(schedule=schedule)
    right = DEFAULT[0].astype(np.float32) @ DEFAULT[1].astype(np.float32).T
    assert np.array_equal(first, right) and np.array_equal(copy, right) and np.array_equal(both, 2 * right)


def test_sums_lie_at_an_address_and_an_offset():
    """The warp that multiplies has an address 16 columns on, and goes back."""
    text = KERNEL.replace("ld.param.u64 %rd6, [a_at];\n", "ld.param.u64 %rd6, [a_at];\nadd.u32 %r10, %r6, 16;\n")
    assert np.array_equal(sums(text.replace("[%r6], %rd6", "[%r10+-16], %rd6")), sums())


def as_bf16(x):
    return (x.astype(np.float32).view(np.uint32) >> np.uint32(16)).astype(np.uint16)


def as_e4m3(x):
    """Of whole numbers from -4 to 4."""
    return np.array([0x00, 0x38, 0x40, 0x44, 0x48], np.uint8)[np.abs(x).astype(int)] | np.where(x < 0, 0x80, 0).astype(np.uint8)


def as_e5m2(x):
    return np.array([0x00, 0x3C, 0x40, 0x42, 0x44], np.uint8)[np.abs(x).astype(int)] | np.where(x < 0, 0x80, 0).astype(np.uint8)


WORD = 16 // 8 << 17 | 128 // 16 << 24
KINDS = {
    "bf16": ("kind::f16", as_bf16, 16, 1 << 4 | 1 << 7 | 1 << 10), "tf32": ("kind::tf32", lambda x: x.astype(np.float32), 8, 1 << 4 | 2 << 7 | 2 << 10),
    "s8": ("kind::i8", lambda x: x.astype(np.int8), 32, 2 << 4 | 1 << 7 | 1 << 10), "e4m3": ("kind::f8f6f4", as_e4m3, 32, 1 << 4),
    "e5m2": ("kind::f8f6f4", as_e5m2, 32, 1 << 4 | 1 << 7 | 1 << 10), "f16 negated": ("kind::f16", lambda x: x.astype(np.float16), 16, 1 << 4 | 1 << 14),
    "f16 negated twice": ("kind::f16", lambda x: x.astype(np.float16), 16, 1 << 4 | 1 << 13 | 1 << 14),
}


@pytest.mark.parametrize("name", KINDS)
def test_words_by_their_code(name):
    """The codes are those of the PTX ISA's tables, written down here a second time."""
    kind, stored_as, k, code = KINDS[name]
    a, b = drawn(np.float32, k, 1)
    first, _, both = sums(KERNEL.replace("kind::f16", kind), a=stored_as(a), b=stored_as(b), told=WORD | code, dtype=np.int32 if name == "s8" else np.float32)
    right = (a @ b.T).astype(first.dtype) * (-1 if name == "f16 negated" else 1)
    assert np.array_equal(first, right) and np.array_equal(both, 2 * right)


def test_the_sums_are_truncated_as_the_units_row_says():
    """2^25 terms' worth of ones beside a large one: bits below the 25th of the largest term are cut, those of FP32 arithmetic are not."""
    a, b = np.zeros((128, 16), np.float16), np.zeros((16, 16), np.float16)
    a[:, 0], b[:, 0] = 1, 1
    a[:, 1:], b[:, 1:] = 2.0**-13, 2.0**-13 * 1.5  # 15 products of 1.5 * 2^-26, each cut to 0 where 25 bits are kept
    assert (sums(a=a, b=b)[0] == 1).all()
    a[:, 1:] = 2.0**-12  # of 1.5 * 2^-25, each cut to 2^-25: 15 of them, and FP32 keeps 23 bits
    assert (sums(a=a, b=b)[0] == 1 + 3 * 2.0**-23).all()


def test_sums_of_eight_bits_are_the_policys_own():
    """All 32 products are cut at once, where mma.sync sums 16 of them before: of 2^16 and 31 times 2^-11 nothing small is left here, and something there."""
    a, b = np.full((128, 32), 0x10, np.uint8), np.full((16, 32), 0x08, np.uint8)  # 2^-5 x 2^-6
    a[:, 2], b[:, 2] = 0x78, 0x78  # 2^8 x 2^8
    first, *_ = sums(KERNEL.replace("kind::f16", "kind::f8f6f4"), a=a, b=b, told=WORD | 1 << 4)
    assert (first == dot(UNITS.get("blackwell").of("e4m3", "tcgen05"), "e4m3", *decoded(a, b), np.float32(0))).all()
    assert (first != dot(UNITS.get("blackwell").of("e4m3", "mma"), "e4m3", *decoded(a, b), np.float32(0))).all()


def decoded(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return decode("e4m3", a)[:, None], decode("e4m3", b)[None]


@pytest.mark.parametrize("signs", [(0, 0), (0, 1), (1, 0), (1, 1)], ids=str)
def test_integers_of_every_sign_are_summed_exactly(signs):
    """All 256 bytes: an operand's code says whether the upper half is negative. A sum wraps unless the instruction saturates."""
    a, b = (np.random.default_rng(5).permuted(np.resize(np.arange(256, dtype=np.uint8), (rows, 32))) for rows in (128, 16))
    left, right = (x.view(np.int8 if sign else np.uint8).astype(np.int32) for x, sign in zip((a, b), signs))
    text, told = KERNEL.replace("kind::f16", "kind::i8"), WORD | 2 << 4 | signs[0] << 7 | signs[1] << 10
    first, _, both = sums(text, a=a, b=b, told=told, dtype=np.int32)
    assert np.array_equal(first, left @ right.T) and np.array_equal(both, 2 * first)


def test_ctas_have_tensor_memory_of_their_own():
    """Three CTAs of one strip write the same sums."""
    right = DEFAULT[0].astype(np.float32) @ DEFAULT[1].astype(np.float32).T
    for schedule in (*SCHEDULES, TOGETHER):
        assert np.array_equal(sums(schedule=schedule, grid=3)[2], 2 * right)


MMA = "tcgen05.mma.cta_group::1.kind::f16 [%r6], %rd6, %rd7, %r9, %p7;"
COMMIT = "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r2+4608];"
PARKED = "mbarrier.try_wait.parity.shared::cta.b64 %p4, "
LOAD = f"tcgen05.ld.sync.aligned.32x32b.x16.b32 {X}, [%r7];"
AFTER, BEFORE = "tcgen05.fence::after_thread_sync; // ", "tcgen05.fence::before_thread_sync; // "
FAULTS = {
    "no wait for a load": ("tcgen05.wait::ld.sync.aligned; // first\n", "", "a register is read that a tcgen05.ld may not have written yet"),
    "no wait for the last load": ("tcgen05.wait::ld.sync.aligned; // second\n", "", "a register is read that a tcgen05.ld"),
    "a wait for stores instead of one for loads": (
        "tcgen05.wait::ld.sync.aligned; // first", "tcgen05.wait::st.sync.aligned;", "a register is read that a tcgen05.ld may not have written yet"),
    "no wait for a store": ("tcgen05.wait::st.sync.aligned;\n", "", "read that another warp need not have written yet.*tcgen05.wait::st"),
    "the wait for loads instead of that for stores": (
        "tcgen05.wait::st", "tcgen05.wait::ld", "read that another warp need not have written yet.*tcgen05.wait::st",
    ),
    "no fence before the sums are said to be read": (
        f"{BEFORE}read\n", "", "multiplied into that another warp need not have read yet.*fence::before_thread_sync",
    ),
    "no fence after the first product's barrier": (f"{AFTER}first\n", "", "read before the products into it are known to be done.*fence::after_thread_sync"),
    "no fence after the second product's barrier": (f"{AFTER}second\n", "", "read before the products into it are known to be done.*fence::after_thread_sync"),
    "no fence after the sums were read": (f"{AFTER}emptied\n", "", "multiplied into that another warp need not have read yet.*fence::after_thread_sync"),
    "a buffer is taken too early": (f"{PARKED}[%r2+4616], 0;\n@!%p4 bra $EMPTIED;\n", "", "deadlock|wrong numbers"),
    "sums are read too early": (
        f"{PARKED}[%r2+4608], 0;\n@!%p4 bra $FIRST;\n", "", "(known to be done.*a wait for the mbarrier|nothing has written|allocated)",
    ),
    "no commit": (f"{COMMIT} // first\n", "", "deadlock"),
    "an arrival instead of a commit": (f"{COMMIT} // first", "mbarrier.arrive.shared.b64 _, [%r2+4608];", "no commit covers"),
    "a commit before its product": (f"{MMA} // second\n{COMMIT} // second", f"{COMMIT}\n{MMA}", "no commit covers"),
    "a commit to the wrong barrier": (f"{COMMIT} // first", COMMIT.replace("4608", "4616"), "deadlock|more arrivals"),
    "a commit to no barrier": (f"{COMMIT} // first", COMMIT.replace("4608", "4632"), "nothing has initialised"),
    "a commit nobody waits for": ("$OUT:\n", "$OUT:\n@%p2 ret;\n" + COMMIT + "\n", "a CTA ends while the arrival of a tcgen05.commit"),
    "another warp's lanes": ("and.b32 %r7, %r1, 96;", "mov.u32 %r7, 0;", "lanes of tensor memory that are another one's"),
    "lanes swapped": ("shl.b32 %r7, %r7, 16;", "shl.b32 %r7, %r7, 16;\nxor.b32 %r7, %r7, 2097152;", "lanes of tensor memory that are another one's"),
    "columns swapped": (f"{LOAD}\n", LOAD.replace("[%r7]", "[%r7+16]") + "\n", "nothing has written"),
    "columns beyond the allocation": (f"{LOAD}\n", LOAD.replace("[%r7]", "[%r7+17]") + "\n", "tensor memory is used that is not allocated"),
    "sums beyond the allocation": (f"{MMA} // first", MMA.replace("[%r6]", "[%r6+17]"), "tensor memory is used that is not allocated"),
    "sums from another lane on": (f"{MMA} // first", MMA.replace("[%r6]", "[%r6+2097152]"), "begin at lane 0"),
    "half a warp loads": (f"{LOAD}\n", f"setp.lt.u32 %p8, %r1, 16;\n@%p8 {LOAD}\n", "tcgen05.ld is not reached by all lanes"),
    "nothing is given back": ("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r6, 32;\n", "", "ends while tensor memory is allocated"),
    "too little is given back": ("%r6, 32;", "%r6, 16;", "given back that is not one whole allocation"),
    "columns that are no power of two": ("[%r2+4624], 32;", "[%r2+4624], 48;", "an allocation of tensor memory has a wrong size"),
    "taken after the right was given up": (
        "tcgen05.alloc.", "tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;\ntcgen05.alloc.", "after the right to do so was given up"),
    "no fence before it is known to be taken": (f"{BEFORE}taken\n", "", "need not be allocated yet.*fence::before_thread_sync"),
    "given back before it is known to be read": (
        f"{BEFORE}end\n", "@!%p3 tcgen05.fence::before_thread_sync;\n", "given back that another warp need not have read yet",
    ),
    "no fence before it is given back": (f"{AFTER}end\n", "", "given back (before the products|that another warp).*fence::after_thread_sync"),
    "added to nothing": ("setp.ne.u32 %p7, %r1, %r1;", "setp.eq.u32 %p7, %r1, %r1;", "added to tensor memory that nothing has written"),
    "no fence of the proxies": ("fence.proxy.async.shared::cta;\n", "", "read by the asynchronous proxy that an ordinary store wrote"),
    "barriers that the unit need not see": ("fence.mbarrier_init.release.cluster;\n", "", "asynchronous proxy, which may not see that it was initialised"),
    "operands overwritten too early": (f"{COMMIT} // first\n", f"{COMMIT}\nst.shared.b32 [%r2], %r6;\n", "shared memory was overwritten while a tcgen05.mma"),
    "only one lane tells that the warp has read": (
        f"{BEFORE}read\n", "setp.eq.u32 %p8, %r1, 0;\n@%p8 tcgen05.fence::before_thread_sync;\n", "by all threads of warp 0",
    ),
    "only one lane hears that the products are done": (
        f"{AFTER}first\n", "and.b32 %r10, %r1, 31;\nsetp.eq.u32 %p8, %r10, 0;\n@%p8 tcgen05.fence::after_thread_sync;\n",
        "read before the products into it are known to be done",
    ),
    "the other swizzle": ("ld.param.u64 %rd6, [a_at];\n", "ld.param.u64 %rd6, [a_at];\nxor.b64 %rd6, %rd6, 0x4000000000000000;\n", "wrong numbers"),
    "another distance of eight rows": ("ld.param.u64 %rd7, [b_at];\n", "ld.param.u64 %rd7, [b_at];\nsub.s64 %rd7, %rd7, 0x800000000;\n", "wrong numbers"),
    "the other operand": ("%rd6, %rd7, %r9, %p7; // second", "%rd7, %rd6, %r9, %p7;", "reaches outside shared memory"),
    "words of another type": ("ld.param.u32 %r9, [told];\n", "ld.param.u32 %r9, [told];\nadd.s32 %r9, %r9, 0x480;\n", "wrong numbers"),
    "sums begun anew": ("setp.eq.u32 %p7, %r1, %r1;\n", "", "wrong numbers"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_found(name):
    before, after, problem = FAULTS[name]
    assert KERNEL.count(before) == 1
    right, found = sums(), []
    for schedule in SCHEDULES:
        try:
            found += [] if np.array_equal(sums(KERNEL.replace(before, after), schedule), right) else ["wrong numbers"]
        except EmulationError as error:
            found.append(str(error))
    assert any(re.search(problem, one, re.DOTALL) for one in found), found


# ---- what the two words say


@pytest.mark.parametrize("bits, problem", [
    (descriptor(0) ^ 1 << 46, "bits 46 to 48"), (descriptor(0) ^ 1 << 47, "bits 46 to 48"), (descriptor(0) ^ 1 << 48, "bits 46 to 48"),
    (descriptor(0) | 1 << 49, "base offset or reserved"), (descriptor(0) | 1 << 52, "base offset or reserved"),
    (descriptor(0) | 1 << 60, "base offset or reserved"), (descriptor(0) ^ 7 << 61, "swizzle 1"), (descriptor(128), "inside its swizzle pattern"),
    (ROW.descriptor.constant(128) | 512 >> 4, "inside its swizzle pattern"), (ROW.descriptor.constant(64) | 128 >> 4, "inside its swizzle pattern"),
])
def test_what_is_no_matrix(bits, problem):
    with pytest.raises(Fault, match=problem):
        matrix_descriptor(bits)


@pytest.mark.parametrize("swizzle", [32, 64, 128])
def test_a_matrix_lies_where_the_fragments_row_says(swizzle):
    """And a step along k within the swizzled row is the start moved by 32 bytes."""
    for step in range(0, swizzle, 32):
        found = matrix_descriptor(ROW.descriptor.constant(swizzle) | 8192 + step >> 4).addresses(np.arange(24), turned=False)
        assert found.tolist() == [[8192 + ROW.descriptor.place(row, step // 16 + chunk, swizzle) for chunk in range(2)] for row in range(24)]


GOOD = ROW.instruction_word.value(128, 256)


@pytest.mark.parametrize("kind, bits, problem", [
    ("kind::f16", GOOD | 1, "sparsity"), ("kind::f16", GOOD | 1 << 6, "bit 6"), ("kind::f16", GOOD | 1 << 15, "transposes"),
    ("kind::f16", GOOD | 1 << 16, "transposes"),
    ("kind::f16", GOOD | 1 << 23, "bit 23"), ("kind::f16", GOOD | 1 << 29, "bit 29"), ("kind::f16", GOOD | 1 << 30, "shift"),
    ("kind::f16", GOOD ^ 1 << 4, "type of sums"), ("kind::i8", GOOD | 1 << 7 | 1 << 10, "type of sums"), ("kind::f16", GOOD | 1 << 7, "other words"),
    ("kind::tf32", GOOD, "other words"), ("kind::i8", GOOD ^ 3 << 4 | 2 << 7, "other words"), ("kind::f16", GOOD | 2 << 7 | 2 << 10, "other words"),
    ("kind::f8f6f4", GOOD | 3 << 7 | 3 << 10, "other words"), ("kind::f16", ROW.instruction_word.value(64, 16), "64 x 16"),
    ("kind::f16", ROW.instruction_word.value(128, 24), "128 x 24"), ("kind::f16", ROW.instruction_word.value(128, 0), "128 x 0"),
    ("kind::f16", GOOD + (16 // 8 << 17), "128 x 272"), ("kind::f16", GOOD | 1 << 3, "only other words"),
    ("kind::i8", GOOD ^ 3 << 4 | 1 << 7 | 1 << 10 | 1 << 13, "only other words"),
])
def test_what_is_no_instruction(kind, bits, problem):
    with pytest.raises(Fault) as fault:
        InstructionWord.decode(kind, bits)
    assert problem in f"{fault.value} {fault.value.got}"


def test_what_an_instruction_word_says():
    assert InstructionWord.decode("kind::f16", GOOD) == InstructionWord(("f16", "f16"), 256, False, False)
    assert InstructionWord.decode("kind::i8", GOOD ^ 3 << 4 | 1 << 7 | 1 << 10 | 1 << 3) == InstructionWord(("s8", "s8"), 256, False, True)
    assert InstructionWord.decode("kind::i8", GOOD ^ 3 << 4 | 1 << 10).words == ("u8", "s8")


@pytest.mark.parametrize("before, after, problem", [
    (f"{MMA} // first", MMA.replace("cta_group::1", "cta_group::2"), "different groups of CTAs"),
    (f"{MMA} // first", MMA.replace("%rd6", "[%r6]"), "an operand in tensor memory"),
    (f"{MMA} // first", MMA.replace("kind::f16", "kind::mxf4"), "needs a modifier"),
    (f"{MMA} // first", MMA.replace(";", ", 3;"), "an operand in tensor memory"),
    (f"{LOAD}\n", LOAD.replace("x16", "x32") + "\n", "registers do not fit the shape"),
    (f"{LOAD}\n", "tcgen05.ld.sync.aligned.32x32b.x3.b32 {%x0, %x1, %x2}, [%r7];\n", "registers do not fit the shape"),
    (f"{LOAD}\n", LOAD.replace("32x32b", "16x64b") + "\n", "needs a modifier"),
    (f"{COMMIT} // first", COMMIT.replace("one", "two"), "modifier is not supported|needs a modifier"),
])
def test_what_is_not_supported_is_refused_before_anything_runs(before, after, problem):
    assert KERNEL.count(before) == 1
    with pytest.raises(EmulationError, match=problem):
        Emulator(KERNEL.replace(before, after), UNITS.get("blackwell"))


# ---- tensor memory by itself


def test_allocations_are_powers_of_two_side_by_side():
    memory = TensorMemory(8)
    assert [memory.allocate(0, columns, "here") for columns in (256, 32, 128)] == [256, 224, 0]
    for columns, problem in ((16, "wrong size"), (1024, "wrong size"), (96, "wrong size"), (128, "give back in time")):
        with pytest.raises(Fault, match=problem):
            memory.allocate(0, columns, "here")
    assert memory.span(224, 32) == slice(224, 256)
    for address, columns in ((224, 33), (223, 1), (511, 2), (128, 1)):
        with pytest.raises(Fault, match="not allocated"):
            memory.span(address, columns)


def test_the_warp_that_took_tensor_memory_gives_it_back():
    memory = TensorMemory(4)
    assert memory.allocate(1, 32, "there") == 480
    memory.fence_before(np.arange(32, 64))
    memory.meet(np.arange(4))
    memory.fence_after(np.arange(128))
    with pytest.raises(Fault, match="given back by another warp than took it") as fault:
        memory.free(np.arange(32), 480, 32)
    assert (fault.value.got, fault.value.needs) == ("warp 0", "warp 1, which allocated it")
    memory.free(np.arange(32, 64), 480, 32)


def test_warps_of_one_quarter_see_what_the_other_has_stored_after_a_fence():
    """Warps 1 and 5 have the same lanes, warp 2 has others and need not know."""
    memory, values = TensorMemory(8), np.ones((4, 32), np.uint32)
    threads = {warp: np.arange(32 * warp, 32 * warp + 32) for warp in range(8)}
    memory.allocate(0, 32, "there")
    memory.fence_before(threads[0])
    memory.meet(np.arange(8))
    for warp in (1, 2, 5):
        memory.fence_after(threads[warp])
    memory.store(1, threads[1], 32 << 16 | 480, values, "there")
    memory.store(2, threads[2], 64 << 16 | 480, values, "there")
    for act, needs in (
        ([], "tcgen05.wait::st by warp 1 before it says so"),
        ([memory.settle], "tcgen05.fence::before_thread_sync by all threads of warp 1 before their barrier"),
        ([memory.fence_before], "a barrier that orders the two"),
    ):
        for each in act:
            each(threads[1], *([1] if each == memory.settle else []))
        with pytest.raises(Fault, match="need not have written yet") as fault:
            memory.load(5, threads[5], 32 << 16 | 480, 4, "here")
        assert fault.value.needs == needs
    memory.meet(np.array([1, 5]))
    with pytest.raises(Fault, match="need not have written yet") as fault:
        memory.store(5, threads[5], 32 << 16 | 480, values, "here")
    assert "fence::after_thread_sync" in fault.value.needs
    memory.fence_after(threads[5])
    assert memory.load(5, threads[5], 32 << 16 | 480, 4, "here").tolist() == values.tolist()


def test_a_commit_covers_its_own_threads_products_until_then():
    """Of thread 32's, not of thread 33's, and none that is issued later."""
    memory, threads = TensorMemory(4), np.arange(32)
    memory.allocate(0, 64, "there")
    memory.fence_before(threads)
    memory.meet(np.arange(4))
    memory.fence_after(np.arange(128))
    first = memory.begin(32, slice(448, 464), False, "there")
    assert memory.commit(33)[4 + 1] == 0
    told = memory.commit(32)
    assert told[4 + 1] == first and memory.begin(32, slice(464, 480), False, "there") > first
    memory.hear(threads, told)
    memory.fence_after(threads)
    assert memory.load(0, threads, 448, 16, "here").shape == (16, 32)
    with pytest.raises(Fault, match="known to be done") as fault:
        memory.load(0, threads, 464, 16, "here")
    assert "no commit covers" in fault.value.got
    told = memory.commit(32)
    with pytest.raises(Fault, match="known to be done") as fault:
        memory.load(0, threads, 464, 16, "here")
    assert fault.value.needs == "a wait for the mbarrier at which the commit arrives"
    memory.hear(threads, told)
    with pytest.raises(Fault, match="known to be done") as fault:
        memory.load(0, threads, 464, 16, "here")
    assert "fence::after_thread_sync" in fault.value.needs
    with pytest.raises(Fault, match="written before the products"):
        memory.store(0, threads, 464, np.zeros((16, 32), np.uint32), "here")
