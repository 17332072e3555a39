"""`wmma` on the emulator: where its fragments lie, what it multiplies, what it refuses.

The layout of fragments is written down here once more, in the words of the PTX
ISA for m16n8k16, so that a changed map does not go unnoticed.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest

import assembled
from gemmgen.catalog.fragment import FragmentMap
from gemmgen.catalog.unit import UNITS
from gemmgen.emulate import SCHEDULES, TOGETHER, Emulator
from gemmgen.emulate.core import units
from gemmgen.emulate.ptx import emulator
from gemmgen.emulate.ptx.isa import wmma
from gemmgen.errors import EmulationError

HARDWARE = Path(__file__).parents[1] / "data" / "wmma_h100.npz"
"""What an H100 returned: for float16 (8 registers) and bfloat16 (4), `registers` `[a b, row col, lane, register]`
of fragments loaded from 0, 1, 2, ... with a stride of 24; and products d = a b + c of matrices in memory, a and b
column-major where `column_major` `[products, a b]` says so, c column-major, d row-major."""
UNIT_OF = {"sm_75": "turing", "sm_80": "ampere", "sm_90": "hopper", "sm_120": "blackwell"}
REGISTERS = {"a_f16": 8, "b_f16": 8, "a_bf16": 4, "b_bf16": 4}


def names(variable, count, start=0):
    """`{%0,%1,...}` and `"=r"(v[0]),...` of an asm statement's register vector."""
    numbered = ",".join(f"%{i}" for i in range(start, start + count))
    return f"{{{numbered}}}", ", ".join(f"CONSTRAINT({variable}[{i}])" for i in range(count))


def load(operand, variable, word, address, stride, layout="row", space="shared"):
    """A wmma.load as inline assembly; `stride` None leaves it out."""
    count = REGISTERS.get(f"{operand}_{word}", 8)
    vector, outputs = names(variable, count)
    outputs = outputs.replace("CONSTRAINT", '"=f"' if operand == "c" else '"=r"')
    where = "" if space == "generic" else f".{space}"
    last, value = ("", "") if stride is None else (f", %{count + 1}", f', "r"({stride})')
    letter = "r" if space.startswith("shared") else "l"
    return (
        f'asm volatile("wmma.load.{operand}.sync.aligned.{layout}.m16n16k16{where}.{word} '
        f'{vector}, [%{count}]{last};" : {outputs} : "{letter}"({address}){value} : "memory");'
    )


def store(variable, address, stride, layout="row", space="global"):
    vector, inputs = names(variable, 8, 1)
    inputs = inputs.replace("CONSTRAINT", '"f"')
    where = "" if space == "generic" else f".{space}"
    letter = "r" if space.startswith("shared") else "l"
    return (
        f'asm volatile("wmma.store.d.sync.aligned.{layout}.m16n16k16{where}.f32 [%0], {vector}, %9;" '
        f':: "{letter}"({address}), {inputs}, "r"({stride}) : "memory");'
    )


def multiply(d, a, b, c, word="f16", layouts="row.col"):
    count = REGISTERS[f"a_{word}"]
    vectors, lists, at = [], [], 0
    for variable, size, constraint in ((d, 8, '"=f"'), (a, count, '"r"'), (b, count, '"r"'), (c, 8, '"f"')):
        vector, text = names(variable, size, at)
        vectors.append(vector)
        lists.append(text.replace("CONSTRAINT", constraint))
        at += size
    types = "f32.f32" if word == "f16" else "f32.bf16.bf16.f32"
    return (
        f'asm volatile("wmma.mma.sync.aligned.{layouts}.m16n16k16.{types} {", ".join(vectors)};" '
        f": {lists[0]} : {', '.join(lists[1:])});"
    )


SHARED_ADDRESS = "(unsigned)__cvta_generic_to_shared({})".format


@cache
def ptx_of(text, arch):
    return assembled.ptx_of(text, arch)


def run(text, grid, block, shared, *args, out, arch="sm_80", offset=0, **options):
    """Launch `k` with arrays uploaded and `out` = (dtype, shape) appended, uninitialised."""
    unit = UNITS.get(UNIT_OF[arch])
    with Emulator(ptx_of(text, arch), unit, source=text, source_name="kernel.cu", **options) as machine:
        values = [
            machine.upload(a, name=f"arg{i}", offset=offset) if isinstance(a, np.ndarray) else a
            for i, a in enumerate(args)
        ]
        result = machine.alloc(int(np.prod(out[1])) * np.dtype(out[0]).itemsize, name="out")
        stats = machine.launch("k", (*grid, 1, 1)[:3], (*block, 1, 1)[:3], shared, [*values, result])
        return machine.read(result, *out), stats


# ---------------------------------------------------------------- where fragments lie


def element(operand, register):
    """`[32, places]` (row, column) of what the lanes hold there, in the words of the PTX ISA for m16n8k16.

    B and C are those of two such products, for columns 0 to 7 and 8 to 15.
    """
    lane = np.arange(32)
    g, t = lane // 4, lane % 4
    if operand == "a":
        return [(g + 8 * (register % 2), 2 * t + h + 8 * (register // 2 % 2)) for h in (0, 1)]
    if operand == "b":
        return [(2 * t + h + 8 * (register % 2), g + 8 * (register // 2 % 2)) for h in (0, 1)]
    return [(g + 8 * (register // 2 % 2), 2 * t + register % 2 + 8 * (register // 4))]


def dump(operand, word, layout, space, stride):
    """A kernel that loads a fragment and writes its registers, register after register."""
    count, words = REGISTERS.get(f"{operand}_{word}", 8), "float" if operand == "c" else "unsigned short"
    address = {"generic": "tile", "global": "x"}.get(space, SHARED_ADDRESS("tile"))
    return f"""extern "C" __global__ void k(const {words}* x, int stride, unsigned* out) {{
  __shared__ __align__(32) {words} tile[16 * {stride or 16}];
  for (int i = threadIdx.x; i < 16 * {stride or 16}; i += 32) tile[i] = x[i];
  __syncwarp();
  {"float" if operand == "c" else "unsigned"} r[{count}];
  {load(operand, "r", word, address, None if stride is None else "stride", layout, space)}
  for (int i = 0; i < {count}; ++i) out[i * 32 + threadIdx.x] = *(unsigned*)&r[i];
}}"""


def loaded(operand, word, layout, space="shared", stride=24):
    """Registers as loaded, and as the formulas above have them."""
    pitch, dtype = stride or 16, np.float32 if operand == "c" else np.uint16
    x = np.random.default_rng(0).permutation(16 * pitch).astype(dtype).reshape(16, pitch)
    count = REGISTERS.get(f"{operand}_{word}", 8)
    text = dump(operand, word, layout, space, stride)
    got, _ = run(text, (1,), (32,), 0, x, stride or 0, out=(np.uint32, (count, 32)))
    matrix = x[:, :16] if layout == "row" else x[:, :16].T
    want = [np.stack([matrix[at] for at in element(operand, r)], 1).copy().view(np.uint32)[:, 0] for r in range(count)]
    return got, np.array(want)


@pytest.mark.parametrize("space", ["shared", "shared::cta", "global", "generic"])
@pytest.mark.parametrize("layout", ["row", "col"])
@pytest.mark.parametrize(("operand", "word"), [("a", "f16"), ("b", "f16"), ("a", "bf16"), ("b", "bf16"), ("c", "f32")])
def test_fragments_lie_where_the_machine_code_puts_them(operand, word, layout, space):
    got, want = loaded(operand, word, layout, space)
    assert (got == want).all()


@pytest.mark.parametrize("layout", ["row", "col"])
@pytest.mark.parametrize("operand", ["a", "b", "c"])
def test_without_a_stride_lines_are_the_matrix_wide(operand, layout):
    got, want = loaded(operand, "f32" if operand == "c" else "f16", layout, stride=None)
    assert (got == want).all()


@pytest.mark.parametrize("operand", ["a", "b", "c"])
def test_another_map_would_be_noticed(operand, monkeypatch):
    real = wmma._fragment(operand)
    swapped = FragmentMap(**{**real.model_dump(), "lanes": (real.lanes[1], real.lanes[0], *real.lanes[2:])})
    caches = (wmma._elements, wmma._holders, emulator._programs)
    monkeypatch.setattr(wmma, "_fragment", lambda _: swapped)
    try:
        for cached in caches:
            cached.cache_clear()
        got, want = loaded(operand, "f32" if operand == "c" else "f16", "row")
        assert not (got == want).all()
    finally:
        for cached in caches:
            cached.cache_clear()


@pytest.mark.parametrize("word", ["f16", "bf16"])
def test_fragments_lie_where_an_h100_puts_them(word):
    registers = np.load(HARDWARE)[f"registers_{word}"]
    memory = np.arange(16 * 24, dtype=np.uint16)
    for i, operand in enumerate("ab"):
        for j, layout in enumerate(("row", "col")):
            text = dump(operand, word, layout, "global", 24)
            got, _ = run(text, (1,), (32,), 0, memory, 24, out=(np.uint32, (REGISTERS[f"a_{word}"], 32)), arch="sm_90")
            assert (got.T == registers[i, j]).all()


# ---------------------------------------------------------------- one product


def words_of(word, x):
    """FP32 as stored words (bfloat16 truncated), and the values those stand for."""
    raw = x.astype(np.float16).view(np.uint16) if word == "f16" else (x.view(np.uint32) >> 16).astype(np.uint16)
    return raw, units.decode(word, raw)


def product_kernel(word, a_layout, b_layout, c_layout, space):
    at = {"global": "{}", "generic": "{}", "shared": SHARED_ADDRESS("{}")}[space]
    count = REGISTERS[f"a_{word}"]
    inside = space != "global"
    a, b, c, d = (at.format("s" + x if inside else x) for x in "abcd")
    return f"""typedef unsigned short u16;
extern "C" __global__ void k(const u16* a, const u16* b, const float* c, float* d) {{
  __shared__ __align__(32) u16 sa[16 * 24], sb[16 * 24];
  __shared__ __align__(32) float sc[16 * 20], sd[16 * 20];
  for (int i = threadIdx.x; i < 16 * 24; i += 32) {{ sa[i] = a[i]; sb[i] = b[i]; }}
  for (int i = threadIdx.x; i < 16 * 20; i += 32) {{ sc[i] = c[i]; sd[i] = 7; if (!{int(inside)}) d[i] = 7; }}
  __syncwarp();
  unsigned ra[{count}], rb[{count}];
  float rc[8], rd[8];
  {load("a", "ra", word, a, 24, a_layout, space)}
  {load("b", "rb", word, b, 24, b_layout, space)}
  {load("c", "rc", "f32", c, 20, c_layout, space)}
  {multiply("rd", "ra", "rb", "rc", word, f"{a_layout}.{b_layout}")}
  {store("rd", d, 20, c_layout, space)}
  __syncwarp();
  if ({int(inside)}) for (int i = threadIdx.x; i < 16 * 20; i += 32) d[i] = sd[i];
}}"""


@pytest.mark.parametrize("c_layout", ["row", "col"])
@pytest.mark.parametrize("layouts", [("row", "col"), ("row", "row"), ("col", "row"), ("col", "col")])
@pytest.mark.parametrize("space", ["shared", "global", "generic"])
@pytest.mark.parametrize("word", ["f16", "bf16"])
def test_a_product_is_that_of_the_matrix_unit(word, space, layouts, c_layout):
    check_product(word, layouts, c_layout, space, "sm_80")


@pytest.mark.parametrize("arch", sorted(UNIT_OF))
def test_every_unit_has_its_own_product(arch):
    check_product("f16", ("row", "col"), "row", "shared", arch)


@pytest.mark.parametrize(("right", "wrong"), [('"r"(24)', '"r"(16)'), ('"r"(20)', '"r"(16)')])
def test_a_wrong_stride_gives_other_bits(right, wrong):
    with pytest.raises(AssertionError):
        check_product("f16", ("row", "col"), "row", "shared", "sm_80", edit=(right, wrong))


@pytest.mark.parametrize("word", ["f16", "bf16"])
def test_products_are_those_of_an_h100(word):
    known = np.load(HARDWARE)
    matrices = zip(*(known[f"{name}_{word}"] for name in ("column_major", "a", "b", "c", "d")), strict=True)
    for column_major, a, b, c, d in matrices:
        layouts = ["col" if turned else "row" for turned in column_major]
        text = product_kernel(word, *layouts, "col", "global")
        a, b = (np.pad(x, ((0, 0), (0, 8))) for x in (a, b))
        got, _ = run(text, (1,), (32,), 0, a, b, np.pad(c, ((0, 0), (0, 4))), out=(np.float32, (16, 20)), arch="sm_90")
        assert got[:, :16].T.tobytes() == d.tobytes()


@pytest.mark.parametrize(("last", "together"), [("c", 1), ("d", 2)])
def test_products_in_a_row_are_those_of_one_after_the_other(last, together):
    """One fragment of A by two of B, as one where the second does not need the first's result."""
    text = f"""extern "C" __global__ void k(const unsigned short* x, const unsigned short* y, float* out) {{
  unsigned a[8], b[8], e[8];
  float c[8] = {{1, 2, 3, 4, 5, 6, 7, 8}}, d[8], f[8];
  {load("a", "a", "f16", "x", 16, "row", "global")}
  {load("b", "b", "f16", "y", 32, "row", "global")}
  {load("b", "e", "f16", "y + 16", 32, "row", "global")}
  {multiply("d", "a", "b", "c", "f16", "row.row")}
  {multiply("f", "a", "e", last, "f16", "row.row")}
  {store("d", "out", 32)}
  {store("f", "out + 16", 32)}
}}"""
    rng = np.random.default_rng(4)
    x, y = (rng.standard_normal((16, n)).astype(np.float16) for n in (16, 32))
    got, stats = run(text, (1,), (32,), 0, x.view(np.uint16), y.view(np.uint16), out=(np.float32, (16, 32)))
    c = np.zeros((16, 16), np.float32)
    for register in range(8):
        c[element("c", register)[0]] = register + 1
    x, y = x.astype(np.float32), y.astype(np.float32)
    times = lambda right, c: units.dot(UNITS.get("ampere"), "f16", x[:, None], right.T[None], c)  # noqa: E731
    first = times(y[:, :16], c)
    assert got.tobytes() == np.hstack([first, times(y[:, 16:], c if last == "c" else first)]).tobytes()
    assert stats.mma == 4
    machine = Emulator(ptx_of(text, "sm_80"), UNITS.get("ampere"))
    code = [each for block in machine.programs["k"].blocks for each in block.code]
    assert sum(each.statement.opcode.startswith("wmma.mma") for each in code) == together


def check_product(word, layouts, c_layout, space, arch, edit=("", "")):
    rng = np.random.default_rng(1)
    a, b = (rng.standard_normal((16, 24)).astype(np.float32) for _ in "ab")
    c = (rng.standard_normal((16, 20)) * 100).astype(np.float32)
    (raw_a, a), (raw_b, b) = words_of(word, a), words_of(word, b)
    text = product_kernel(word, *layouts, c_layout, space).replace(*edit)
    got, stats = run(text, (1,), (32,), 0, raw_a, raw_b, c, out=(np.float32, (16, 20)), arch=arch)
    turned = lambda x, layout: x[:, :16] if layout == "row" else x[:, :16].T  # noqa: E731
    left, right = turned(a, layouts[0]), turned(b, layouts[1])
    want = units.dot(UNITS.get(UNIT_OF[arch]), word, left[:, None], right.T[None], turned(c, c_layout))
    assert turned(got, c_layout).tobytes() == want.tobytes()
    assert (got[:, 16:] == 7).all()
    assert stats.mma == 2


def test_the_product_is_that_of_two_mma_with_the_same_registers():
    """The matrix instructions of the machine code, m16n8k16, on the first four registers of A and B."""
    half = """asm volatile(
    "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
    : "+f"(e[N]), "+f"(e[N + 1]), "+f"(e[N + 2]), "+f"(e[N + 3])
    : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[N / 2]), "r"(b[N / 2 + 1]));"""
    text = f"""extern "C" __global__ void k(const unsigned short* x, const unsigned short* y, float* out) {{
  unsigned a[8], b[8];
  float d[8], e[8] = {{}};
  {load("a", "a", "f16", "x", 16, "row", "global")}
  {load("b", "b", "f16", "y", 16, "row", "global")}
  a[5] ^= 0x3c00; b[7] ^= 0x3c00;          // copies are not looked at
  {multiply("d", "a", "b", "e", "f16", "row.row")}
  {half.replace("N", "0")}
  {half.replace("N", "4")}
  for (int i = 0; i < 8; ++i) {{ out[threadIdx.x * 8 + i] = d[i]; out[256 + threadIdx.x * 8 + i] = e[i]; }}
}}"""
    x, y = (np.random.default_rng(s).standard_normal((16, 16)).astype(np.float16).view(np.uint16) for s in (1, 2))
    for arch in ("sm_80", "sm_90"):
        got, stats = run(text, (1,), (32,), 0, x, y, out=(np.float32, (2, 32, 8)), arch=arch)
        assert got[0].tobytes() == got[1].tobytes()
        assert stats.mma == 4


# ---------------------------------------------------------------- a GEMM

PAD = 8
GEMM = f"""typedef unsigned short u16;
#define K 96
#define BK 32
#define PITCH (BK + {PAD})
#define PITCH_C (32 + 4)
// A [M, K] row-major, B [N, K] (column-major as the formula reads), a block of 32 x 32 for four warps
extern "C" __global__ void __launch_bounds__(128) k(const u16* A, const u16* B, int N, float* C) {{
  extern __shared__ __align__(128) unsigned char memory[];
  u16 *a = (u16*)memory, *b = a + 32 * PITCH;
  float* c = (float*)(b + 32 * PITCH);
  const int tid = threadIdx.x, m = tid / 64 * 16, n = tid / 32 % 2 * 16;
  float sum[8] = {{}};
  for (int k0 = 0; k0 < K; k0 += BK) {{
    for (int i = tid; i < 32 * BK; i += 128) {{
      a[i / BK * PITCH + i % BK] = A[(blockIdx.y * 32 + i / BK) * K + k0 + i % BK];
      b[i / BK * PITCH + i % BK] = B[(blockIdx.x * 32 + i / BK) * K + k0 + i % BK];
    }}
    __syncthreads();
    #pragma unroll
    for (int kk = 0; kk < BK; kk += 16) {{
      unsigned fa[8], fb[8];
      {load("a", "fa", "f16", SHARED_ADDRESS("a + m * PITCH + kk"), "PITCH", "row")}   // fragment of A
      {load("b", "fb", "f16", SHARED_ADDRESS("b + n * PITCH + kk"), "PITCH", "col")}   // fragment of B
      {multiply("sum", "fa", "fb", "sum", "f16", "row.col")}                           // product
    }}
    __syncthreads();
  }}
  {store("sum", SHARED_ADDRESS("c + m * PITCH_C + n"), "PITCH_C", "row", "shared")}    // result
  __syncthreads();
  for (int i = tid; i < 32 * 32; i += 128)
    C[(blockIdx.y * 32 + i / 32) * N + blockIdx.x * 32 + i % 32] = c[i / 32 * PITCH_C + i % 32];
}}"""
SHARED = 2 * 32 * (32 + PAD) * 2 + 32 * 36 * 4


def factors(m=64, n=96, k=96):
    rng = np.random.default_rng(7)
    return (rng.uniform(-1, 1, shape).astype(np.float16) for shape in ((m, k), (n, k)))


def gemm(text=GEMM, shared=SHARED, **options):
    a, b = factors()
    a, b = a.view(np.uint16), b.view(np.uint16)
    return run(text, (3, 2), (128,), shared, a, b, 96, out=(np.float32, (64, 96)), **options)


def composed(arch):
    a, b = (x.astype(np.float32) for x in factors())
    c = np.zeros((64, 96), np.float32)
    for k in range(0, 96, 16):
        c = units.dot(UNITS.get(UNIT_OF[arch]), "f16", a[:, None, k : k + 16], b[None, :, k : k + 16], c)
    return c


@pytest.mark.parametrize("schedule", [*SCHEDULES, TOGETHER], ids=lambda s: s.name)
@pytest.mark.parametrize("arch", sorted(UNIT_OF))
def test_a_gemm_with_padded_rows_equals_the_composition_of_dots(arch, schedule):
    got, stats = gemm(arch=arch, schedule=schedule, strip=4)
    assert got.tobytes() == composed(arch).tobytes()
    assert stats.mma == 6 * 4 * (96 // 16) * 2
    lines = [number for number, line in enumerate(GEMM.splitlines(), 1) if "// fragment" in line]
    assert not set(stats.conflict_sites) & {f"kernel.cu:{line}" for line in lines}


def edited(*changes):
    text = GEMM
    for old, new in changes:
        assert text.count(old) >= 1, old
        text = text.replace(old, new)
    return text


def conflicts_of(text, part, shared=SHARED):
    _, stats = gemm(text, shared)
    line = next(number for number, line in enumerate(text.splitlines(), 1) if part in line)
    return stats.conflict_sites.get(f"kernel.cu:{line}", 0)


@pytest.mark.parametrize(("pad", "extra"), [(0, 3), (8, 0), (16, 1), (32, 7)])
def test_conflicts_of_loads_by_padding(pad, extra):
    """Phases of eight rows of 16 bytes: rows 64, 80, 96 and 128 bytes apart."""
    text, shared = edited((f"#define PITCH (BK + {PAD})", f"#define PITCH (BK + {pad})")), SHARED + 2 * 64 * (pad - PAD)
    loads = 6 * 4 * (96 // 16)  # CTAs, warps, steps
    assert conflicts_of(text, "// fragment of A", shared) == loads * 4 * extra
    assert conflicts_of(text, "// fragment of B", shared) == loads * 4 * extra


@pytest.mark.parametrize(("pad", "extra"), [(0, 3), (4, 1), (8, 0)])
def test_conflicts_of_stores_by_padding(pad, extra):
    """Four stores of 8 bytes a lane; a half warp writes four rows of 32 bytes."""
    text = edited(("#define PITCH_C (32 + 4)", f"#define PITCH_C (32 + {pad})"))
    assert conflicts_of(text, "// result", SHARED + 32 * 4 * 4) == 6 * 4 * 4 * 2 * extra


@pytest.mark.parametrize(("old", "new"), [
    ("b + n * PITCH + kk", "b + m * PITCH + kk"), ("load.a.sync.aligned.row", "load.a.sync.aligned.col"),
    ("m * PITCH_C + n", "n * PITCH_C + m"), ("a + m * PITCH + kk", "a + m * PITCH"),
])
def test_a_wrong_layout_or_address_gives_other_bits(old, new):
    got, _ = gemm(edited((old, new)))
    assert got.tobytes() != composed("sm_80").tobytes()


@pytest.mark.parametrize("stride", ["PITCH - 8", "PITCH + 8"])
def test_a_stride_that_leads_to_padding_is_refused(stride):
    with pytest.raises(EmulationError, match="wmma.load|nothing has written"):
        gemm(edited(('"r"(PITCH)', f'"r"({stride})')))


def test_warps_of_some_ctas_only():
    """Loads, products and stores under a mask; and a count of what really ran."""
    text = edited(("k0 < K;", "k0 < K - BK * (int)blockIdx.x;"))
    got, stats = gemm(text)
    a, b = (x.astype(np.float32) for x in factors())
    for x in range(3):
        c = np.zeros((64, 32), np.float32)
        for k in range(0, 96 - 32 * x, 16):
            part = b[32 * x : 32 * x + 32, k : k + 16]
            c = units.dot(UNITS.get("ampere"), "f16", a[:, None, k : k + 16], part[None], c)
        assert got[:, 32 * x : 32 * x + 32].tobytes() == c.tobytes()
    assert stats.mma == 2 * 4 * (6 + 4 + 2) * 2


# ---------------------------------------------------------------- faults


def one_load(operand="a", word="f16", address="x", stride="16", layout="row", space="global", before="", guard=""):
    kind = "float" if operand == "c" else "unsigned"
    return f"""extern "C" __global__ void k(const unsigned char* x, int n, unsigned* out) {{
  extern __shared__ __align__(128) unsigned char tile[];
  {kind} r[8] = {{}};
  {before}
  {guard} {{ {load(operand, "r", word, address, stride, layout, space)} }}   // the load
  out[threadIdx.x] = *(unsigned*)&r[0];
}}"""


def fails(text, match, *, nbytes=1024, shared=1024, n=0, grid=(1,), offset=0):
    line = next(number for number, line in enumerate(text.splitlines(), 1) if "// the load" in line)
    with pytest.raises(EmulationError, match=match) as error:
        run(text, grid, (32,), shared, np.zeros(nbytes, np.uint8), n, out=(np.uint32, 32), offset=offset)
    assert error.value.where.startswith(f"kernel.cu:{line} (entry k"), error.value
    assert "wmma.load" in error.value.has
    return error.value


def test_an_address_between_multiples_of_32_bytes_is_refused():
    error = fails(one_load(address="x + 16"), "wmma.load has a matrix that is not aligned")
    assert error.got == "buffer `arg0` + 16 of 1024 bytes" and error.needs == "an address that is a multiple of 32"
    assert fails(one_load(), "not aligned", offset=16).got == "buffer `arg0` + 0 of 1024 bytes"
    error = fails(one_load(address=SHARED_ADDRESS("tile + 8"), space="shared"), "not aligned")
    assert error.got == "shared memory + 8 of 1024 bytes"
    fails(one_load(address="x + 32 * n + 4"), "not aligned", n=3)


@pytest.mark.parametrize(("operand", "stride", "nbytes"), [("a", "20", 40), ("b", "17", 34), ("c", "18", 72)])
def test_lines_between_multiples_of_16_bytes_are_refused(operand, stride, nbytes):
    error = fails(one_load(operand, "f32" if operand == "c" else "f16", stride=stride), "lines that are not aligned")
    assert error.got == f"a stride of {nbytes} bytes" and "multiple of 16 bytes" in error.needs


def test_part_of_a_warp_is_refused():
    error = fails(one_load(guard="if (threadIdx.x < 20)"), "wmma.load is not reached by all lanes of the warp")
    assert "thread (20, 0, 0)" in error.problem


def test_lanes_that_disagree_are_refused():
    error = fails(one_load(address="x + (threadIdx.x == 9 ? 32 : 0)"), "different addresses or strides")
    assert "thread (9, 0, 0)" in error.problem
    fails(one_load(stride="16 + (threadIdx.x & 8)"), "different addresses or strides")


def test_a_matrix_that_reaches_out_of_its_buffer_is_refused():
    """The last line is 15 strides from the first, and 32 bytes long (64 in C)."""
    run(one_load(stride="40"), (1,), (32,), 0, np.zeros(15 * 80 + 32, np.uint8), 0, out=(np.uint32, 32))
    error = fails(one_load(stride="40"), "outside its buffer", nbytes=15 * 80 + 31)
    assert "in CTA (0, 0, 0), thread (31, 0, 0)" in error.problem  # which moves the last 16 bytes
    fails(one_load("c", "f32", stride="40"), "outside its buffer", nbytes=15 * 160 + 63)
    written = "for (int i = threadIdx.x; i < 1024; i += 32) tile[i] = 0;"
    at = SHARED_ADDRESS("tile + 32 * n")
    fails(one_load(address=at, space="shared", stride=None, before=written), "outside shared memory", n=17)
    fails(one_load(address=at, space="shared", stride=None), "nothing has written")


def test_products_of_part_of_a_warp_and_of_unwritten_fragments_are_refused():
    text = f"""extern "C" __global__ void k(float* out) {{
  unsigned a[8] = {{}}, b[8] = {{}};
  float c[8] = {{}}, d[8] = {{}};
  if (threadIdx.x & 1) {{ {multiply("d", "a", "b", "c")} }}
  {store("d", "out", 16)}
}}"""
    with pytest.raises(EmulationError, match="wmma.mma is not reached by all lanes"):
        run(text, (1,), (32,), 0, out=(np.float32, 256))
    text = text.replace("if (threadIdx.x & 1)", "")
    assert (run(text, (1,), (32,), 0, out=(np.float32, 256))[0] == 0).all()
    with pytest.raises(EmulationError, match="write of 8 bytes reaches outside"):
        run(text, (1,), (32,), 0, out=(np.float32, 255))
    with pytest.raises(EmulationError, match="wmma.store has lines that are not aligned"):
        run(text.replace('"r"(16)', '"r"(18)'), (1,), (32,), 0, out=(np.float32, 320))
