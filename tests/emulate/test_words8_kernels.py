"""One instruction on 8-bit words, compiled by NVRTC and emulated: the kernels that ask a GPU (`gemmgen.verify.unit_probe`), against the definition."""

from __future__ import annotations

import numpy as np
import pytest
from assembled import ptx_of

from gemmgen.catalog.conversion import decode, to_float8, to_integer
from gemmgen.catalog.fragment import FRAGMENTS, find
from gemmgen.catalog.gpu import GPUS
from gemmgen.emulate import Emulator
from gemmgen.errors import EmulationError
from gemmgen.fragment_header import fragment_header
from gemmgen.verify import unit_probe

CASES = [
    ("mma_m8n8k16_s8", "t4"), ("mma_m16n8k32_s8", "a100"), ("mma_m16n8k32_s8", "h200"), ("wgmma_m64n8k32_s8", "h200"),
    ("mma_m16n8k32_e4m3", "l40s"), ("mma_m16n8k32_e5m2", "h200"), ("wgmma_m64n8k32_e4m3", "h200"), ("wgmma_m64n8k32_e5m2", "h200"),
    ("wgmma_m64n8k16_f16", "h200"), ("mma_m16n8k16_bf16", "a100"),
]  # fmt: skip


class OnEmulator:
    """What a probe asks of a device."""

    def __init__(self, source, unit, edit=("", "")):
        assert edit[0] in source.text
        assembly = ptx_of(source.text.replace(*edit), source.arch, "probe.cu")
        self.emulator = Emulator(assembly, unit, source=source.text, processes=1)

    def upload(self, array, name):
        return self.emulator.upload(array, name=name)

    def empty(self, nbytes, name):
        return self.emulator.alloc(nbytes, name=name)

    def launch(self, symbol, blocks, threads, shared_bytes, args):
        self.emulator.launch(symbol, (blocks, 1, 1), (threads, 1, 1), shared_bytes, [buffer for _, buffer in args])

    def download(self, buffer, dtype, count):
        return self.emulator.read(buffer, dtype.type, (count,))


def probed(name: str, gpu: str, edit=("", "")):
    row, gpu = find(name, "here"), GPUS.get(gpu)
    device = OnEmulator(unit_probe.probe_source(row, row.arch or gpu.arch), gpu.unit, edit)
    with device.emulator:
        return unit_probe.probe(device, row, gpu)


@pytest.mark.parametrize(("name", "gpu"), CASES)
def test_the_machine_multiplies_as_the_unit_does(name, gpu):
    tiles = probed(name, gpu)
    assert tiles.summary == f"{tiles.d.size} of {tiles.d.size} dot products as modelled"
    if tiles.fragment.word == "s8":
        exact = tiles.a.astype(np.int64) @ tiles.b.astype(np.int64) + tiles.c
        assert (exact != exact.astype(np.int32)).any() and np.array_equal(tiles.d, exact.astype(np.int32))


@pytest.mark.parametrize(("name", "edit"), [
    ("mma_m16n8k32_s8", ("i) * 32 + j]", "(i ^ 8)) * 32 + j]")),
    ("wgmma_m64n8k32_e4m3", ("place<32>(j, i / 16)", "place<32>(j, 1 - i / 16)")),
    ("wgmma_m64n8k32_s8", ("place<32>(j, i / 16) + i % 16 * 1", "place<32>(j, i / 16) + (i ^ 1) % 16 * 1")),
])
def test_words_at_the_wrong_place_are_seen(name, edit):
    assert not probed(name, "h200", edit).summary.endswith("as modelled")


@pytest.mark.parametrize(("name", "edit"), [
    ("mma_m16n8k32_s8", (".row.col.s32", ".row.col.satfinite.s32")), ("wgmma_m64n8k32_s8", ("k32.s32.s8.s8 {", "k32.satfinite.s32.s8.s8 {")),
])
def test_sums_stop_at_their_ends_where_they_are_asked_to(name, edit):
    tiles = probed(name, "h200", edit)
    exact = tiles.a.astype(np.int64) @ tiles.b.astype(np.int64) + tiles.c
    assert np.array_equal(tiles.d, np.clip(exact, -(2**31), 2**31 - 1))


WIDE = """
using namespace %s;
extern "C" __global__ void __launch_bounds__(128) product(const signed char* x, const signed char* y, int* out) {
    __shared__ __align__(1024) unsigned char a[64 * %d], b[%d * %d];
    for (int at = threadIdx.x; at < 64 * %d; at += 128) a[place<%d>(at / %d, at %% %d / 16) + at %% 16] = x[at];
    for (int at = threadIdx.x; at < C::columns * %d; at += 128) b[place<%d>(at / %d, at %% %d / 16) + at %% 16] = y[at];
    fence_shared();
    __syncthreads();
    C c;
    fence();
    for (int k = 0; k < %d; k += 32) multiply_add(c, descriptor<%d>(a + k), descriptor<%d>(b + k), k > 0);
    commit();
    wait<0>();
    foreach_ij(c, [&](int index, int i, int j) { out[i * C::columns + j] = c.get(index); });
}
"""


@pytest.mark.parametrize("row_bytes", [32, 64, 128])
@pytest.mark.parametrize("columns", [48, 256])
def test_tiles_of_bytes_in_shared_memory(columns, row_bytes):
    """Every swizzle, several steps along k and wide instructions: A [64, k] and B [columns, k] with k contiguous, both read by the unit."""
    row = find(f"wgmma_m64n{columns}k32_s8", "here")
    text = fragment_header(row) + WIDE % (row.name, row_bytes, columns, *[row_bytes] * 12)
    assembly = ptx_of(text, "sm_90a", "bytes_test.cu")
    rng = np.random.default_rng(4)
    a, b = rng.integers(-128, 128, (64, row_bytes)).astype(np.int8), rng.integers(-128, 128, (columns, row_bytes)).astype(np.int8)
    with Emulator(assembly, GPUS.get("h200").unit, source=text, processes=1) as emulator:
        out = emulator.alloc(4 * 64 * columns, name="out")
        emulator.launch("product", (1, 1, 1), (128, 1, 1), 0, [emulator.upload(a, name="x"), emulator.upload(b, name="y"), out])
        got = emulator.read(out, np.int32, (64, columns))
    assert np.array_equal(got, a.astype(np.int32) @ b.T.astype(np.int32))


CONVERT = r"""
extern "C" __global__ void convert(const float* x, int count, unsigned* out) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    const float a = x[i], b = x[(i + 1) % count], c = x[(i + 2) % count], d = x[(i + 3) % count];
    unsigned short low, high;
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(low) : "f"(b), "f"(a));
    asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(high) : "f"(d), "f"(c));
    int bytes[4];
    const float all[4] = {a, b, c, d};
    for (int j = 0; j < 4; ++j) asm("{.reg .s16 t; cvt.rni.sat.s8.f32 t, %1; cvt.s32.s16 %0, t;}" : "=r"(bytes[j]) : "f"(all[j]));
    unsigned pair, packed;
    asm("cvt.pack.sat.s8.s32.b32 %0, %1, %2, %3;" : "=r"(pair) : "r"(bytes[3]), "r"(bytes[2]), "r"(0));
    asm("cvt.pack.sat.s8.s32.b32 %0, %1, %2, %3;" : "=r"(packed) : "r"(bytes[1]), "r"(bytes[0]), "r"(pair));
    int dot;
    asm("dp4a.s32.s32 %0, %1, %2, %3;" : "=r"(dot) : "r"(packed), "r"(0x01ff8002), "r"(bytes[0]));
    unsigned wide;
    asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(wide) : "h"(low));
    unsigned rounded = 0;  // as one writes it in C
    for (int j = 0; j < 4; ++j) rounded |= (unsigned)(__float2int_rn(fminf(fmaxf(all[j], -127.0f), 127.0f)) & 255) << 8 * j;
    out[i * 5] = low | (unsigned)high << 16, out[i * 5 + 1] = packed, out[i * 5 + 2] = (unsigned)dot, out[i * 5 + 3] = wide, out[i * 5 + 4] = rounded;
}
"""


def test_conversions_pack_bytes():
    rng = np.random.default_rng(6)
    x = np.concatenate([
        np.arange(-140, 140) / np.float32(1), np.arange(-40, 40) / np.float32(2), rng.standard_normal(200) * np.exp2(rng.integers(-20, 20, 200)),
        [np.nan, np.inf, -np.inf, -0.0, 448, 464, 465, 57344, 61440],
    ]).astype(np.float32)  # fmt: skip
    count = len(x)
    assembly = ptx_of(CONVERT, "sm_90", "convert.cu")
    with Emulator(assembly, GPUS.get("h200").unit, processes=1) as emulator:
        out = emulator.alloc(20 * count, name="out")
        emulator.launch("convert", (-(-count // 128), 1, 1), (128, 1, 1), 0, [emulator.upload(x, name="x"), count, out])
        got = emulator.read(out, np.uint32, (count, 5))
    each = [np.roll(x, -j) for j in range(4)]
    floats = np.stack([to_float8(each[0], "e4m3"), to_float8(each[1], "e4m3"), to_float8(each[2], "e5m2"), to_float8(each[3], "e5m2")], 1)
    assert np.array_equal(got[:, 0], floats.view(np.uint32)[:, 0])
    bytes_ = np.stack([to_integer(one, symmetric=False) for one in each], 1)
    assert np.array_equal(got[:, 1], bytes_.view(np.uint32)[:, 0])
    factors = np.array([0x02, 0x80, 0xFF, 0x01], np.uint8).view(np.int8).astype(np.int32)
    assert np.array_equal(got[:, 2].view(np.int32), (bytes_ * factors).sum(1) + bytes_[:, 0])
    halves = np.stack([decode("e4m3", floats[:, j]).astype(np.float16) for j in range(2)], 1)
    raw = np.where(np.isnan(halves), np.uint16(0x7FFF), halves.view(np.uint16))
    assert np.array_equal(got[:, 3], np.ascontiguousarray(raw).view(np.uint32)[:, 0])
    clamped = np.stack([to_integer(np.where(np.isnan(one), -127, one)) for one in each], 1)  # fmaxf takes the number
    assert np.array_equal(got[:, 4], clamped.view(np.uint32)[:, 0])


BARE = '.visible .entry k()\n{\n.reg .b32 %r<9>;\n.reg .f32 %f<9>;\nmov.b32 %r1, 0;\nmov.b32 %r2, 0;\nmov.f32 %f1, 0f00000000;\nINSTRUCTION\nret;\n}\n'


@pytest.mark.parametrize("instruction", [
    "mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32 {%r1, %r2, %r3, %r4}, {%r1, %r1, %r1, %r1}, {%r1, %r1}, {%r1, %r1, %r1, %r1};",
    "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e5m2.f32 {%f1, %f2, %f3, %f4}, {%r1, %r1, %r1, %r1}, {%r1, %r1}, {%f1, %f1, %f1, %f1};",
    "mma.sync.aligned.m16n8k32.row.col.satfinite.f32.e4m3.e4m3.f32 {%f1, %f2, %f3, %f4}, {%r1, %r1, %r1, %r1}, {%r1, %r1}, {%f1, %f1, %f1, %f1};",
    "cvt.rn.e4m3x2.f32 %r3, %f1, %f1;",
    "cvt.pack.sat.u16.s32 %r3, %r1, %r2;",
    pytest.param("wgmma.mma_async.sync.aligned.m64n40k32.s32.s8.s8 {" + ", ".join(["%r1"] * 20) + "}, %rd1, %rd2, 1;", id="integers, 40 columns"),
])
def test_what_it_does_not_know_it_refuses(instruction):
    text = ".version 8.7\n.target sm_90\n.address_size 64\n" + BARE.replace("INSTRUCTION", instruction)
    with pytest.raises(EmulationError, match="not supported|become words of 8 bits|saturate"):
        with Emulator(text, GPUS.get("h200").unit, processes=1) as emulator:
            emulator.launch("k", (1, 1, 1), (32, 1, 1), 0, [])


def test_every_fragment_of_bytes_is_probed():
    rows = {row.name for row in FRAGMENTS.rows() if row.vendor == "nvidia" and row.word_bytes == 1}
    assert rows == {name for name, _ in CASES if find(name, "here").word_bytes == 1} | {
        "mma_m16n8k32_e4m3", "mma_m16n8k32_e5m2", "tcgen05_m128n16k32_e4m3", "tcgen05_m128n16k32_s8"}  # the last two in test_tensor_memory
