"""Single instructions against exact arithmetic, on values chosen to go wrong."""

import math
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest

from awkward import AWKWARD, LARGEST
from gemmgen.catalog.unit import UNITS
from gemmgen.emulate import Emulator, TensorMap
from gemmgen.emulate.core import strips
from gemmgen.emulate.core.integer import picked_bytes
from gemmgen.emulate.core.memory import Arena, Buffer, Fault
from gemmgen.emulate.core.report import Source
from gemmgen.emulate.ptx.registers import Registers
from gemmgen.errors import EmulationError

WIDTH = {"u8": 16, "s8": 16, "u16": 16, "s16": 16, "f16": 16, "b16": 16, "bf16": 16}


def run(statement, out, *inputs, declare=""):
    """One instruction over arrays: `{d}` is its result, `{a}`, `{b}`, `{c}` its sources."""
    count = len(inputs[0])
    size = np.dtype(out).itemsize
    lines, names = [], "abc"[: len(inputs)]
    for name, array in zip(names, inputs, strict=True):
        bits = 8 * array.dtype.itemsize
        lines.append(f".reg .b{max(bits, 16)} %{name};")
        lines.append(f"ld.param.u64 %rd1, [p_{name}]; mad.wide.u32 %rd2, %r1, {bits // 8}, %rd1;")
        lines.append(f"ld.global.b{bits} %{name}, [%rd2];")
    params = ", ".join(f".param .u64 p_{name}" for name in (*names, "d"))
    text = statement.format(d="%d", a="%a", b="%b", c="%c")
    ptx = f"""
.version 9.5
.target sm_80
.address_size 64
.visible .entry k({params}, .param .u32 n)
{{
.reg .b32 %r<6>; .reg .b64 %rd<4>; .reg .pred %p<4>; .reg .b{max(16, 8 * size)} %d; {declare}
mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mad.lo.s32 %r1, %r2, 64, %r1;
ld.param.u32 %r3, [n]; setp.ge.u32 %p1, %r1, %r3; @%p1 ret;
{" ".join(lines)}
{text}
ld.param.u64 %rd1, [p_d]; mad.wide.u32 %rd2, %r1, {size}, %rd1;
st.global.b{8 * size} [%rd2], %d;
ret;
}}"""
    with Emulator(ptx, UNITS.get("ampere"), processes=1) as emulator:
        buffers = [emulator.upload(array, name=f"in{i}") for i, array in enumerate(inputs)]
        result = emulator.alloc(count * size, name="out")
        emulator.launch("k", (-(-count // 64), 1, 1), (64, 1, 1), 0, [*buffers, result, count])
        return emulator.read(result, out, (count,))


def pairs(values, count=2):
    return [grid.ravel() for grid in np.meshgrid(*[values] * count, indexing="ij")]


def same(got, want):
    """Equal bit for bit, every NaN like every other."""
    got, want = np.asarray(got), np.asarray(want)
    nan = np.isnan(got) & np.isnan(want)
    raw = f"u{got.dtype.itemsize}"
    differ = (got.view(raw) != want.astype(got.dtype).view(raw)) & ~nan
    assert not differ.any(), (got[differ][:5], want[differ][:5])


def rounded(exact: Fraction, mode: str, digits=24, smallest=-126, largest=LARGEST) -> float:
    """A non-zero fraction on the grid of a binary format."""
    magnitude = abs(exact)
    exponent = max(_exponent(magnitude), smallest)
    ulp = Fraction(2) ** (exponent - digits + 1)
    steps = magnitude / ulp
    down = steps.numerator // steps.denominator
    rest = steps - down
    if mode == "rn":
        up = rest > Fraction(1, 2) or (rest == Fraction(1, 2) and down % 2)
    else:
        up = rest > 0 and mode == {True: "rp", False: "rm"}[exact > 0]
    value = (down + bool(up)) * ulp
    if value > largest:
        finite = mode == "rz" or mode == ("rm" if exact > 0 else "rp")
        value = largest if finite else math.inf
    return math.copysign(float(value), exact)


def _exponent(x: Fraction) -> int:
    e = x.numerator.bit_length() - x.denominator.bit_length()
    return e if Fraction(2) ** e <= x else e - 1


@pytest.mark.parametrize("mode", ["rn", "rz", "rm", "rp"])
def test_fma_rounds_once(mode):
    rng = np.random.default_rng(1)
    few = np.concatenate([AWKWARD[:18], [np.float32(1 / 3), np.float32(-(2.0**-24))]]).astype(np.float32)
    a, b, c = pairs(few, 3)
    # near-ties: a product of 48 bits plus an addend that leaves just half an ulp, and a bit more
    x = (rng.integers(2**23, 2**24, 3000) * 2.0**-23).astype(np.float32)
    y = (rng.integers(2**23, 2**24, 3000) * 2.0**-23).astype(np.float32)
    z = (np.float32(2) ** rng.integers(-60, 40, 3000)).astype(np.float32) * rng.choice([-1, 1], 3000)
    scale = np.float32(2.0**-74)  # results around the smallest subnormals
    a = np.concatenate([a, x, x * scale]).astype(np.float32)
    b = np.concatenate([b, y, y * scale]).astype(np.float32)
    c = np.concatenate([c, z, z * np.float32(2.0**-110)]).astype(np.float32)
    got = run(f"fma.{mode}.f32 {{d}}, {{a}}, {{b}}, {{c}};", np.float32, a, b, c)
    with np.errstate(all="ignore"):
        want = a.astype(np.float64) * b + c  # right for Inf and NaN, and for the sign of exact zeros
    for i in np.flatnonzero(np.isfinite(a) & np.isfinite(b) & np.isfinite(c)):
        exact = Fraction(float(a[i])) * Fraction(float(b[i])) + Fraction(float(c[i]))
        if exact:
            want[i] = rounded(exact, mode)
        elif mode == "rm":
            plus = math.copysign(1, a[i]) * math.copysign(1, b[i]) > 0 and math.copysign(1, c[i]) > 0
            want[i] = 0.0 if plus and (a[i] == 0 or b[i] == 0) and c[i] == 0 else -0.0
    same(got, want)


@pytest.mark.parametrize("operation", ["add", "sub", "mul"])
@pytest.mark.parametrize("mode", ["rn", "rz", "rm", "rp"])
def test_sums_and_products_round_as_told(operation, mode):
    a, b = pairs(AWKWARD)
    got = run(f"{operation}.{mode}.f32 {{d}}, {{a}}, {{b}};", np.float32, a, b)
    with np.errstate(all="ignore"):
        want = {"add": a + b.astype(np.float64), "sub": a - b.astype(np.float64), "mul": a * b.astype(np.float64)}[
            operation
        ]
    for i in np.flatnonzero(np.isfinite(a) & np.isfinite(b)):
        x, y = Fraction(float(a[i])), Fraction(float(b[i]))
        exact = {"add": x + y, "sub": x - y, "mul": x * y}[operation]
        if exact:
            want[i] = rounded(exact, mode)
        elif operation != "mul" and mode == "rm" and (x or y):
            want[i] = -0.0
        elif operation != "mul" and mode == "rm":
            addend = float(b[i]) if operation == "add" else -float(b[i])
            both_plus = math.copysign(1, float(a[i])) > 0 and math.copysign(1, addend) > 0
            want[i] = 0.0 if both_plus else -0.0
    same(got, want)


def test_flushing_and_saturation():
    a, b = pairs(AWKWARD)
    flush = lambda x: np.where(np.abs(x) < 2.0**-126, np.copysign(np.float32(0), x), x)  # noqa: E731
    with np.errstate(all="ignore"):
        same(run("mul.ftz.f32 {d}, {a}, {b};", np.float32, a, b), flush(flush(a) * flush(b)))
        clamped = np.where(a + b > 0, np.minimum(a + b, 1), np.float32(0))
        same(run("add.sat.f32 {d}, {a}, {b};", np.float32, a, b), clamped)


@pytest.mark.parametrize("mode", ["rn", "rz", "rm", "rp"])
def test_float32_to_float16(mode):
    rng = np.random.default_rng(2)
    x = np.concatenate([AWKWARD, (rng.standard_normal(3000) * np.exp2(rng.integers(-30, 18, 3000))).astype(np.float32)])
    got = run(f"cvt.{mode}.f16.f32 {{d}}, {{a}};", np.float16, x)
    want = x.astype(np.float64)
    for i in np.flatnonzero(np.isfinite(x) & (x != 0)):
        want[i] = rounded(Fraction(float(x[i])), mode, 11, -14, 65504)
    with np.errstate(all="ignore"):
        same(got, want.astype(np.float16))
    assert (got.view(np.uint16)[np.isnan(x)] == 0x7FFF).all()


@pytest.mark.parametrize("mode", ["rn", "rz"])
def test_float32_to_bfloat16(mode):
    rng = np.random.default_rng(3)
    x = np.concatenate([AWKWARD, rng.integers(0, 2**32, 3000, np.uint32).view(np.float32)])
    got = run(f"cvt.{mode}.bf16.f32 {{d}}, {{a}};", np.uint16, x)
    with np.errstate(invalid="ignore"):  # signalling NaNs
        want = x.astype(np.float64)
    for i in np.flatnonzero(np.isfinite(x) & (x != 0)):
        want[i] = rounded(Fraction(float(x[i])), mode, 8, -126, float((2 - 2.0**-7) * 2.0**127))
    with np.errstate(all="ignore"):
        same((got.astype(np.uint32) << 16).view(np.float32), want.astype(np.float32))
    assert (got[np.isnan(x)] == 0x7FFF).all()


def test_packed_conversions_put_the_first_source_on_top():
    a, b = pairs(AWKWARD)
    with np.errstate(over="ignore"):
        want = np.stack([b.astype(np.float16), a.astype(np.float16)], 1)
    got = run("cvt.rn.f16x2.f32 {d}, {a}, {b};", np.uint32, a, b).view(np.float16).reshape(-1, 2)
    same(got, want)
    got = run("cvt.rn.bf16x2.f32 {d}, {a}, {b};", np.uint32, a, b)
    same((got & np.uint32(0xFFFF0000)).view(np.float32), (run("cvt.rn.bf16.f32 {d}, {a};", np.uint16, a).astype(np.uint32) << 16).view(np.float32))  # fmt: skip


def test_tf32_rounds_ties_away():
    x = np.array([1 + 2.0**-11, 1 + 2.0**-11 - 2.0**-23, -(1 + 2.0**-11), 1 + 3 * 2.0**-11, np.inf], np.float32)
    got = run("cvt.rna.tf32.f32 {d}, {a};", np.uint32, x).view(np.float32)
    same(got, np.array([1 + 2.0**-10, 1, -(1 + 2.0**-10), 1 + 2 * 2.0**-10, np.inf], np.float32))


@pytest.mark.parametrize("target", ["s8", "u8", "s16", "u16", "s32", "u32", "s64", "u64"])
def test_floats_to_integers_clamp(target):
    x = np.concatenate([AWKWARD, np.array([-129, 127.5, 255.5, -0.5, 1e18, 2.0**63, -(2.0**63), 2.0**64], np.float32)])
    info = np.iinfo(f"{'i' if target[0] == 's' else 'u'}{int(target[1:]) // 8}")
    for mode, function in (("rzi", math.trunc), ("rni", round), ("rmi", math.floor), ("rpi", math.ceil)):
        register = "b64" if "64" in target else "b32" if "32" in target else "b16"
        out = np.dtype(info.dtype) if info.bits >= 16 else np.dtype(f"{'i' if target[0] == 's' else 'u'}2")
        got = run(f"cvt.{mode}.{target}.f32 {{d}}, {{a}};", out, x, declare=f".reg .{register} %unused;")
        for value, result in zip(x.tolist(), got.tolist(), strict=True):
            if math.isnan(value):
                want = 0
            elif math.isinf(value):
                want = info.max if value > 0 else info.min
            else:
                want = min(max(function(value), info.min), info.max)
            assert result == want, (value, mode)


def test_integers_to_floats():
    x = np.array([0, 1, -1, 2**24 + 1, 2**24 + 3, -(2**31), 2**31 - 1], np.int32)
    same(run("cvt.rn.f32.s32 {d}, {a};", np.float32, x), x.astype(np.float32))
    same(run("cvt.rz.f32.s32 {d}, {a};", np.float32, x), [rounded(Fraction(int(v)), "rz") if v else 0.0 for v in x])
    same(run("cvt.rn.f32.u32 {d}, {a};", np.float32, x), x.view(np.uint32).astype(np.float32))
    big = np.array([2**63 - 1, 2**62 + 1, -(2**63), 2**40 + 2**16 + 1, 7], np.int64)
    same(run("cvt.rn.f32.s64 {d}, {a};", np.float32, big), [rounded(Fraction(int(v)), "rn") for v in big])
    unsigned = big.view(np.uint64)
    same(run("cvt.rn.f32.u64 {d}, {a};", np.float32, unsigned), [rounded(Fraction(int(v)), "rn") for v in unsigned])


def test_half_arithmetic_rounds_once():
    rng = np.random.default_rng(5)
    a, b, c = rng.integers(0, 2**16, (3, 3000), np.uint16).view(np.float16)
    finite = np.isfinite(a) & np.isfinite(b) & np.isfinite(c)
    a, b, c = a[finite], b[finite], c[finite]
    for text, function in {
        "add.f16 {d}, {a}, {b};": lambda x, y, z: x + y,
        "mul.rn.f16 {d}, {a}, {b};": lambda x, y, z: x * y,
        "fma.rn.f16 {d}, {a}, {b}, {c};": lambda x, y, z: x * y + z,
    }.items():
        inputs = (a, b, c) if "{c}" in text else (a, b)
        got = run(text, np.float16, *inputs)
        exact = [function(*(Fraction(float(v[i])) for v in (a, b, c))) for i in range(len(a))]
        for i, value in enumerate(exact):
            if value:
                assert float(got[i]) == rounded(value, "rn", 11, -14, 65504), (text, i)


def test_min_max_prefer_numbers_and_order_zeros():
    a, b = pairs(AWKWARD)
    got = run("min.f32 {d}, {a}, {b};", np.float32, a, b)
    want = np.fmin(a, b)
    zeros = (a == 0) & (b == 0)
    want[zeros] = np.where(np.signbit(a) | np.signbit(b), np.float32(-0.0), np.float32(0))[zeros]
    same(got, want)
    got = run("max.NaN.f32 {d}, {a}, {b};", np.float32, a, b)
    assert (np.isnan(got) == (np.isnan(a) | np.isnan(b))).all()


INTS = np.array([0, 1, 2, 3, 31, 32, 33, 127, 128, 255, 65535, 65536, 2**31 - 1, 2**31, 2**32 - 1, 0x12345678], np.uint32)


def signed(x, bits=32):
    x &= (1 << bits) - 1
    return x - (1 << bits) if x >> bits - 1 else x


@pytest.mark.parametrize(
    ("text", "function"),
    [
        ("add.s32 {d}, {a}, {b};", lambda a, b: a + b),
        ("sub.u32 {d}, {a}, {b};", lambda a, b: a - b),
        ("mul.lo.s32 {d}, {a}, {b};", lambda a, b: a * b),
        ("mul.hi.u32 {d}, {a}, {b};", lambda a, b: a * b >> 32),
        ("mul.hi.s32 {d}, {a}, {b};", lambda a, b: signed(a) * signed(b) >> 32),
        ("mad.lo.s32 {d}, {a}, {b}, 7;", lambda a, b: a * b + 7),
        ("min.s32 {d}, {a}, {b};", lambda a, b: min(signed(a), signed(b))),
        ("min.relu.s32 {d}, {a}, {b};", lambda a, b: max(0, min(signed(a), signed(b)))),
        ("max.relu.s32 {d}, {a}, {b};", lambda a, b: max(0, signed(a), signed(b))),
        ("max.u32 {d}, {a}, {b};", max),
        ("shl.b32 {d}, {a}, {b};", lambda a, b: a << b if b < 32 else 0),
        ("shr.u32 {d}, {a}, {b};", lambda a, b: a >> b if b < 32 else 0),
        ("shr.s32 {d}, {a}, {b};", lambda a, b: signed(a) >> min(b, 31)),
        ("and.b32 {d}, {a}, {b};", lambda a, b: a & b),
        ("not.b32 {d}, {a};", lambda a, b: ~a),
        ("popc.b32 {d}, {a};", lambda a, b: bin(a).count("1")),
        ("clz.b32 {d}, {a};", lambda a, b: 32 - a.bit_length()),
        ("bfind.u32 {d}, {a};", lambda a, b: a.bit_length() - 1),
        ("brev.b32 {d}, {a};", lambda a, b: int(f"{a:032b}"[::-1], 2)),
        ("neg.s32 {d}, {a};", lambda a, b: -a),
        ("abs.s32 {d}, {a};", lambda a, b: abs(signed(a))),
        ("lop3.b32 {d}, {a}, {b}, 0x0F0F0F0F, 0x96;", lambda a, b: a ^ b ^ 0x0F0F0F0F),
        ("prmt.b32 {d}, {a}, {b}, 0x5140;", lambda a, b: (a & 255) | (b & 255) << 8 | (a >> 8 & 255) << 16 | (b >> 8 & 255) << 24),
        ("prmt.b32 {d}, {a}, {b}, 0xB291;", lambda a, b: permuted(a, b, 0xB291)),  # signs of two bytes
        ("shf.l.wrap.b32 {d}, {a}, {b}, 5;", lambda a, b: (b << 32 | a) << 5 >> 32),
        ("shf.r.clamp.b32 {d}, {a}, {b}, 40;", lambda a, b: b),
        ("bfe.u32 {d}, {a}, {b}, 8;", lambda a, b: a >> (b & 255) & 255),
        ("bfe.s32 {d}, {a}, 4, 8;", lambda a, b: signed(a >> 4, 8)),
        ("bfi.b32 {d}, {a}, {b}, 4, 8;", lambda a, b: (b & ~0xFF0) | (a & 255) << 4),
        ("{{ .reg .b16 l, h; mov.b32 {{l, h}}, {a}; mov.b32 {d}, {{h, l}}; }}", lambda a, b: a >> 16 | a << 16),
        ("{{ .reg .b64 w; mul.wide.s32 w, {a}, {b}; shr.u64 w, w, 32; cvt.u32.u64 {d}, w; }}",
         lambda a, b: signed(a) * signed(b) >> 32),
        ("{{ .reg .b64 w, v; cvt.s64.s32 w, {a}; cvt.s64.s32 v, {b}; mul.hi.s64 w, w, v; cvt.u32.u64 {d}, w; }}",
         lambda a, b: signed(a) * signed(b) >> 64),
        ("{{ .reg .pred p, q; setp.lt.s32 p|q, {a}, {b}; selp.b32 {d}, 1, 2, p; @q add.u32 {d}, {d}, 4; }}",
         lambda a, b: 1 if signed(a) < signed(b) else 6),
        ("{{ .reg .pred p; setp.hi.u32 p, {a}, {b}; setp.ne.or.b32 p, {a}, 0, p; selp.b32 {d}, 1, 0, p; }}",
         lambda a, b: int(a > b or a != 0)),
        ("{{ .reg .b16 x; cvt.u16.u32 x, {a}; cvt.s32.s8 {d}, x; }}", lambda a, b: signed(a, 8)),
        ("cvt.sat.s8.s32 {d}, {a};", lambda a, b: max(-128, min(127, signed(a)))),
        ("{{ .reg .b16 x, y; cvt.u16.u32 x, {a}; cvt.u16.u32 y, {b}; mul.wide.u16 {d}, x, y; }}",
         lambda a, b: (a & 65535) * (b & 65535)),
    ],
)  # fmt: skip
def test_integer_instructions(text, function):
    a, b = pairs(INTS)
    got = run(text, np.uint32, a, b)
    want = [function(int(x), int(y)) & 0xFFFFFFFF for x, y in zip(a, b, strict=True)]
    assert got.tolist() == want


def test_division_goes_toward_zero():
    a, b = pairs(INTS)
    a, b = a[b != 0], b[b != 0]
    for name, function in (
        ("div.u32", lambda x, y: x // y),
        ("rem.u32", lambda x, y: x % y),
        ("div.s32", lambda x, y: int(Fraction(signed(x), signed(y)))),
        ("rem.s32", lambda x, y: signed(x) - signed(y) * int(Fraction(signed(x), signed(y)))),
    ):
        got = run(f"{name} {{d}}, {{a}}, {{b}};", np.uint32, a, b)
        assert got.tolist() == [function(int(x), int(y)) & 0xFFFFFFFF for x, y in zip(a, b, strict=True)]


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("eq", lambda a, b: a == b), ("ne", lambda a, b: a == a and b == b and a != b),
        ("lt", lambda a, b: a < b), ("ge", lambda a, b: a >= b),
        ("neu", lambda a, b: a != b), ("ltu", lambda a, b: not a >= b), ("geu", lambda a, b: not a < b),
        ("num", lambda a, b: a == a and b == b), ("nan", lambda a, b: a != a or b != b),
    ],
)  # fmt: skip
def test_comparisons_of_floats(name, function):
    a, b = pairs(AWKWARD)
    got = run(f"{{{{ .reg .pred p; setp.{name}.f32 p, {{a}}, {{b}}; selp.b32 {{d}}, 1, 0, p; }}}}", np.uint32, a, b)
    assert got.tolist() == [int(function(float(x), float(y))) for x, y in zip(a, b, strict=True)]


def test_float64():
    rng = np.random.default_rng(6)
    a, b, c = rng.standard_normal((3, 200))
    c[:100] = -(a * b)[:100]
    got = run("fma.rn.f64 {d}, {a}, {b}, {c};", np.float64, a, b, c)
    want = [float(Fraction(x) * Fraction(y) + Fraction(z)) for x, y, z in zip(a, b, c, strict=True)]
    same(got, np.array(want))
    same(run("cvt.rn.f32.f64 {d}, {a};", np.float32, a), a.astype(np.float32))
    same(run("add.f64 {d}, {a}, {b};", np.float64, a, b), a + b)


# ---------------------------------------------------------------- by the ISA's own words, with operands at the ends

COUNTS = np.array([0, 1, 7, 8, 15, 16, 31, 32, 33, 63, 64, 65, 255, 256, 2**32 - 1], np.uint32)
LONGS = np.array([0, 1, 0xFF, 2**31, 2**32 - 1, 2**32, 2**63 - 1, 2**63, 2**64 - 2, 0x123456789ABCDEF0], np.uint64)
FEW = np.array([0, 1, 0x80, 0x8000, 2**31 - 1, 2**31, 2**32 - 1, 0x89ABCDEF], np.uint32)


def extracted(a, position, length, bits, signs):
    position, length = position & 255, length & 255
    sign = a >> min(position + length - 1, bits - 1) & 1 if signs and length else 0
    return sum((a >> position + i & 1 if i < length and position + i < bits else sign) << i for i in range(bits))


def inserted(a, b, position, length, bits):
    position, length = position & 255, length & 255
    for i in range(min(length, max(bits - position, 0))):
        b = b & ~(1 << position + i) | (a >> i & 1) << position + i
    return b


def permuted(a, b, selector):
    result = 0
    for i in range(4):
        pick = selector >> 4 * i & 15
        byte = (b << 32 | a) >> 8 * (pick & 7) & 255
        result |= (byte if pick < 8 else 255 * (byte >> 7)) << 8 * i
    return result


def test_bytes_that_all_lanes_pick_alike():
    rng = np.random.default_rng(1)
    words = rng.integers(0, 1 << 32, (3, 5), np.uint32)
    for picks in [(0, 1, 6, 7), (2, 3, 8, 9), (4, 4, 4, 4), (0, 1, 2, 3), *rng.integers(0, 12, (40, 4)).tolist()]:
        expected = np.stack([words[pick // 4] >> np.uint32(8 * (pick % 4)) & np.uint32(255) for pick in picks])
        assert (picked_bytes(words, picks) == expected.astype(np.uint8).T.copy().view(np.uint32)[:, 0]).all(), picks


def looked_up(table):
    return lambda a, b, c: sum((table >> (4 * (a >> i & 1) + 2 * (b >> i & 1) + (c >> i & 1)) & 1) << i for i in range(32))


def dot4(signs_a, signs_b):
    byte = lambda x, at, signs: signed(x >> at, 8) if signs else x >> at & 255  # noqa: E731
    return lambda a, b, c: c + sum(byte(a, at, signs_a) * byte(b, at, signs_b) for at in (0, 8, 16, 24))


def leading(x, bits=64):
    return (x ^ (1 << bits) - 1 if x >> bits - 1 else x).bit_length() - 1


SELECTORS = np.array([0x7531, 0xFEDC, 0xBA98, 0x8080, 0x4321, 0xF00F7654], np.uint32)
LANE_BY_LANE = {
    "bfe.u32 {d}, {a}, {b}, {c};": (np.uint32, (FEW, COUNTS, COUNTS), lambda a, b, c: extracted(a, b, c, 32, False)),
    "bfe.s32 {d}, {a}, {b}, {c};": (np.uint32, (FEW, COUNTS, COUNTS), lambda a, b, c: extracted(a, b, c, 32, True)),
    "bfe.u64 {d}, {a}, {b}, {c};": (np.uint64, (LONGS[4:], COUNTS, COUNTS[5:]), lambda a, b, c: extracted(a, b, c, 64, False)),
    "bfe.s64 {d}, {a}, {b}, {c};": (np.uint64, (LONGS[4:], COUNTS, COUNTS[5:]), lambda a, b, c: extracted(a, b, c, 64, True)),
    "bfi.b32 {d}, {a}, 0x5A5AF00F, {b}, {c};": (np.uint32, (FEW, COUNTS, COUNTS), lambda a, b, c: inserted(a, 0x5A5AF00F, b, c, 32)),
    "bfi.b64 {d}, {a}, 0x5A5AF00F, {b}, {c};": (np.uint64, (LONGS[4:], COUNTS, COUNTS[5:]), lambda a, b, c: inserted(a, 0x5A5AF00F, b, c, 64)),
    "prmt.b32 {d}, {a}, {b}, {c};": (np.uint32, (FEW, FEW, SELECTORS), permuted),
    "lop3.b32 {d}, {a}, {b}, {c}, 0x1B;": (np.uint32, (FEW, FEW, FEW), looked_up(0x1B)),
    "lop3.b32 {d}, {a}, {b}, {c}, 0xE4;": (np.uint32, (FEW, FEW, FEW), looked_up(0xE4)),
    "shf.l.wrap.b32 {d}, {a}, {b}, {c};": (np.uint32, (FEW, FEW, COUNTS), lambda a, b, c: (b << 32 | a) << c % 32 >> 32),
    "shf.l.clamp.b32 {d}, {a}, {b}, {c};": (np.uint32, (FEW, FEW, COUNTS), lambda a, b, c: (b << 32 | a) << min(c, 32) >> 32),
    "shf.r.wrap.b32 {d}, {a}, {b}, {c};": (np.uint32, (FEW, FEW, COUNTS), lambda a, b, c: (b << 32 | a) >> c % 32),
    "shf.r.clamp.b32 {d}, {a}, {b}, {c};": (np.uint32, (FEW, FEW, COUNTS), lambda a, b, c: (b << 32 | a) >> min(c, 32)),
    "dp4a.s32.s32 {d}, {a}, {b}, {c};": (np.uint32, (INTS, FEW, FEW), dot4(True, True)),
    "dp4a.s32.u32 {d}, {a}, {b}, {c};": (np.uint32, (INTS, FEW, FEW), dot4(True, False)),
    "dp4a.u32.s32 {d}, {a}, {b}, {c};": (np.uint32, (INTS, FEW, FEW), dot4(False, True)),
    "dp4a.u32.u32 {d}, {a}, {b}, {c};": (np.uint32, (INTS, FEW, FEW), dot4(False, False)),
    "sad.s32 {d}, {a}, {b}, {c};": (np.uint32, (FEW, FEW, FEW), lambda a, b, c: abs(signed(a) - signed(b)) + c),
    "sad.u32 {d}, {a}, {b}, {c};": (np.uint32, (FEW, FEW, FEW), lambda a, b, c: abs(a - b) + c),
    "mad24.lo.s32 {d}, {a}, {b}, {c};": (np.uint32, (INTS, FEW, FEW), lambda a, b, c: signed(a, 24) * signed(b, 24) + c),
    "mul24.lo.u32 {d}, {a}, {b};": (np.uint32, (INTS, INTS), lambda a, b: (a % 2**24) * (b % 2**24)),
    "mad.hi.u32 {d}, {a}, {b}, {c};": (np.uint32, (INTS, FEW, FEW), lambda a, b, c: (a * b >> 32) + c),
    "mad.hi.s32 {d}, {a}, {b}, {c};": (np.uint32, (INTS, FEW, FEW), lambda a, b, c: (signed(a) * signed(b) >> 32) + c),
    "mad.wide.s32 {d}, {a}, {b}, {c};": (np.uint64, (INTS, FEW, LONGS), lambda a, b, c: signed(a) * signed(b) + c),
    "mad.wide.u32 {d}, {a}, {b}, {c};": (np.uint64, (INTS, FEW, LONGS), lambda a, b, c: a * b + c),
    "mul.hi.u64 {d}, {a}, {b};": (np.uint64, (LONGS, LONGS), lambda a, b: a * b >> 64),
    "mul.hi.s64 {d}, {a}, {b};": (np.uint64, (LONGS, LONGS), lambda a, b: signed(a, 64) * signed(b, 64) >> 64),
    "shl.b64 {d}, {a}, {b};": (np.uint64, (LONGS, COUNTS), lambda a, b: a << b if b < 64 else 0),
    "shr.u64 {d}, {a}, {b};": (np.uint64, (LONGS, COUNTS), lambda a, b: a >> b if b < 64 else 0),
    "shr.s64 {d}, {a}, {b};": (np.uint64, (LONGS, COUNTS), lambda a, b: signed(a, 64) >> min(b, 63)),
    "{{ .reg .b16 x; cvt.u16.u32 x, {a}; shl.b16 x, x, {b}; cvt.u32.u16 {d}, x; }}":
        (np.uint32, (FEW, COUNTS), lambda a, b: (a << b) % 2**16 if b < 16 else 0),
    "{{ .reg .b16 x; cvt.u16.u32 x, {a}; shr.s16 x, x, {b}; cvt.s32.s16 {d}, x; }}":
        (np.uint32, (FEW, COUNTS), lambda a, b: signed(a, 16) >> min(b, 15)),
    "popc.b64 {d}, {a};": (np.uint32, (LONGS,), int.bit_count),
    "clz.b64 {d}, {a};": (np.uint32, (LONGS,), lambda a: 64 - a.bit_length()),
    "brev.b64 {d}, {a};": (np.uint64, (LONGS,), lambda a: int(f"{a:064b}"[::-1], 2)),
    "bfind.s32 {d}, {a};": (np.uint32, (INTS,), lambda a: leading(a, 32)),
    "bfind.u64 {d}, {a};": (np.uint32, (LONGS,), lambda a: a.bit_length() - 1),
    "bfind.s64 {d}, {a};": (np.uint32, (LONGS,), leading),
    "bfind.shiftamt.u32 {d}, {a};": (np.uint32, (INTS,), lambda a: 32 - a.bit_length() if a else -1),
    "bfind.shiftamt.s64 {d}, {a};": (np.uint32, (LONGS,), lambda a: 63 - leading(a) if leading(a) >= 0 else -1),
    "cnot.b32 {d}, {a};": (np.uint32, (INTS,), lambda a: int(a == 0)),
    "or.b32 {d}, {a}, {b};": (np.uint32, (INTS, INTS), lambda a, b: a | b),
    "xor.b64 {d}, {a}, {b};": (np.uint64, (LONGS, LONGS), lambda a, b: a ^ b),
    "max.s32 {d}, {a}, {b};": (np.uint32, (INTS, INTS), lambda a, b: max(signed(a), signed(b))),
    "min.u32 {d}, {a}, {b};": (np.uint32, (INTS, INTS), min),
    "max.s64 {d}, {a}, {b};": (np.uint64, (LONGS, LONGS), lambda a, b: max(signed(a, 64), signed(b, 64))),
    "abs.s64 {d}, {a};": (np.uint64, (LONGS,), lambda a: abs(signed(a, 64))),
    "div.s64 {d}, {a}, {b};": (np.uint64, (LONGS, LONGS[1:]), lambda a, b: int(Fraction(signed(a, 64), signed(b, 64)))),
    "rem.s64 {d}, {a}, {b};":
        (np.uint64, (LONGS, LONGS[1:]), lambda a, b: signed(a, 64) - signed(b, 64) * int(Fraction(signed(a, 64), signed(b, 64)))),
    "{{ .reg .pred p; setp.ne.u32 p, {b}, 0; mov.u32 {d}, 5; @p div.u32 {d}, {a}, {b}; }}": (np.uint32, (INTS, INTS), lambda a, b: a // b if b else 5),
    "set.lt.s32.s32 {d}, {a}, {b};": (np.uint32, (INTS, INTS), lambda a, b: -(signed(a) < signed(b))),
    "set.ls.u32.u32 {d}, {a}, {b};": (np.uint32, (INTS, INTS), lambda a, b: -(a <= b)),
    "set.ge.f32.s32 {d}, {a}, {b};": (np.uint32, (INTS, INTS), lambda a, b: 0x3F800000 if signed(a) >= signed(b) else 0),
    "slct.b32.s32 {d}, {a}, {b}, {c};": (np.uint32, (FEW, FEW, FEW), lambda a, b, c: a if signed(c) >= 0 else b),
    "slct.b32.f32 {d}, 1, 2, {c};": (np.uint32, (FEW, FEW, np.array([0, 1 << 31, 0x3F800000, 0xBF800000], np.uint32)),
                                     lambda a, b, c: 2 if c == 0xBF800000 else 1),
    "{{ .reg .pred p, q, r; setp.lo.u32 r, {a}, 40; setp.le.xor.s32 p|q, {a}, {b}, !r; selp.b32 {d}, 1, 0, p; @q add.u32 {d}, {d}, 2; }}":
        (np.uint32, (INTS, INTS), lambda a, b: ((signed(a) <= signed(b)) ^ (a >= 40)) + 2 * ((signed(a) > signed(b)) ^ (a >= 40))),
    "{{ .reg .pred p, q, r; setp.hs.u32 r, {a}, 40; setp.gt.and.u32 p|q, {a}, {b}, r; selp.b32 {d}, 1, 0, p; @q add.u32 {d}, {d}, 2; }}":
        (np.uint32, (INTS, INTS), lambda a, b: int(a >= 40 and a > b) + 2 * int(a >= 40 and a <= b)),
    "{{ .reg .pred p, q; setp.eq.s32 p, {a}, {b}; mov.u32 {d}, 7; @!p bra over; mov.u32 {d}, 9; over: not.pred q, p; @q add.u32 {d}, {d}, {a}; }}":
        (np.uint32, (INTS, INTS), lambda a, b: 9 if a == b else 7 + a),
    "{{ .reg .b32 l, h; mov.b64 {{l, h}}, {a}; mov.b64 {d}, {{h, l}}; }}": (np.uint64, (LONGS,), lambda a: a >> 32 | a << 32),
    "cvt.sat.u8.s32 {d}, {a};": (np.uint32, (INTS,), lambda a: max(0, min(255, signed(a)))),
    "cvt.sat.u32.s32 {d}, {a};": (np.uint32, (INTS,), lambda a: max(0, signed(a))),
    "cvt.sat.s32.u32 {d}, {a};": (np.uint32, (INTS,), lambda a: min(2**31 - 1, a)),
    "cvt.sat.s32.s64 {d}, {a};": (np.uint32, (LONGS,), lambda a: max(-(2**31), min(2**31 - 1, signed(a, 64)))),
    "cvt.s64.s32 {d}, {a};": (np.uint64, (INTS,), signed),
    "cvt.u64.u32 {d}, {a};": (np.uint64, (INTS,), int),
    "cvt.s64.u32 {d}, {a};": (np.uint64, (INTS,), int),
    "cvt.u64.s32 {d}, {a};": (np.uint64, (INTS,), signed),
    "cvt.u16.u32 {d}, {a};": (np.uint32, (INTS,), lambda a: a % 2**16),
    "cvt.s16.u32 {d}, {a};": (np.uint32, (INTS,), lambda a: signed(a, 16)),
    "cvt.u8.u32 {d}, {a};": (np.uint32, (INTS,), lambda a: a % 256),
}  # fmt: skip


@pytest.mark.parametrize("text", LANE_BY_LANE)
def test_what_the_isa_says_of_integers(text):
    out, values, function = LANE_BY_LANE[text]
    inputs = [grid.ravel() for grid in np.meshgrid(*values, indexing="ij")]
    got = run(text, out, *inputs)
    bits = (1 << 8 * np.dtype(out).itemsize) - 1
    want = [function(*map(int, each)) & bits for each in zip(*inputs, strict=True)]
    assert got.tolist() == want


def flushed(x):
    return np.where(np.abs(x) < np.float32(2.0**-126), np.copysign(np.float32(0), x), x)


def clamped(x):
    return np.where(x > 0, np.minimum(x, x.dtype.type(1)), x.dtype.type(0))


def ordered_pick(pick, loud=False):
    def function(a, b):
        result = np.empty(a.shape, a.dtype)
        for i, (x, y) in enumerate(zip(a.tolist(), b.tolist(), strict=True)):
            if x != x or y != y:
                result[i] = math.nan if loud or (x != x and y != y) else y if x != x else x
            else:
                result[i] = pick((x, y), key=lambda v: (v, math.copysign(1, v)))
        return result

    return function


FLOATS = {
    "div.rn.f32 {d}, {a}, {b};": lambda a, b: a / b,
    "div.rn.ftz.f32 {d}, {a}, {b};": lambda a, b: flushed(flushed(a) / flushed(b)),
    "rcp.rn.f32 {d}, {a};": lambda a, b: 1 / a,
    "sqrt.rn.f32 {d}, {a};": lambda a, b: np.sqrt(a),
    "sqrt.rn.ftz.f32 {d}, {a};": lambda a, b: np.sqrt(flushed(a)),
    "min.f32 {d}, {a}, {b};": ordered_pick(min),
    "max.f32 {d}, {a}, {b};": ordered_pick(max),
    "min.NaN.f32 {d}, {a}, {b};": ordered_pick(min, loud=True),
    "max.NaN.f32 {d}, {a}, {b};": ordered_pick(max, loud=True),
    "max.ftz.f32 {d}, {a}, {b};": lambda a, b: ordered_pick(max)(flushed(a), flushed(b)),
    "add.ftz.f32 {d}, {a}, {b};": lambda a, b: flushed(flushed(a) + flushed(b)),
    "sub.sat.f32 {d}, {a}, {b};": lambda a, b: clamped(a - b),
    "fma.rn.sat.f32 {d}, {a}, {b}, 0f00000000;": lambda a, b: clamped((a.astype(np.float64) * b).astype(np.float32)),
    "fma.rn.ftz.f32 {d}, {a}, {b}, 0f00000001;": lambda a, b: flushed((flushed(a).astype(np.float64) * flushed(b)).astype(np.float32) + np.float32(0)),
    "copysign.f32 {d}, {a}, {b};": lambda a, b: np.copysign(b, a),
    "neg.f32 {d}, {a};": lambda a, b: -a,
    "abs.f32 {d}, {a};": lambda a, b: np.abs(a),
    "neg.ftz.f32 {d}, {a};": lambda a, b: -flushed(a),
    "cvt.sat.f32.f32 {d}, {a};": lambda a, b: clamped(a),
    "cvt.ftz.f32.f32 {d}, {a};": lambda a, b: flushed(a),
    "cvt.rni.f32.f32 {d}, {a};": lambda a, b: np.rint(a),
    "cvt.rzi.f32.f32 {d}, {a};": lambda a, b: np.trunc(a),
    "cvt.rmi.f32.f32 {d}, {a};": lambda a, b: np.floor(a),
    "cvt.rpi.f32.f32 {d}, {a};": lambda a, b: np.ceil(a),
    "{{ .reg .b16 h; cvt.rn.f16.f32 h, {a}; cvt.f32.f16 {d}, h; }}": lambda a, b: a.astype(np.float16).astype(np.float32),
    "{{ .reg .b16 h; cvt.rn.sat.f16.f32 h, {a}; cvt.f32.f16 {d}, h; }}": lambda a, b: clamped(a.astype(np.float16)).astype(np.float32),
    "{{ .reg .b16 h; cvt.rn.ftz.f16.f32 h, {a}; cvt.sat.f32.f16 {d}, h; }}": lambda a, b: clamped(flushed(a).astype(np.float16).astype(np.float32)),
    "{{ .reg .b64 w; cvt.f64.f32 w, {a}; mul.rn.f64 w, w, 0d3FD5555555555555; cvt.rz.f32.f64 {d}, w; }}":
        lambda a, b: [rounded(Fraction(float(x) * (1 / 3)), "rz") if x and math.isfinite(x) else float(x) for x in a],
    "{{ .reg .b64 w; cvt.f64.f32 w, {a}; mul.rn.f64 w, w, 0d3FD5555555555555; cvt.rp.f32.f64 {d}, w; }}":
        lambda a, b: [rounded(Fraction(float(x) * (1 / 3)), "rp") if x and math.isfinite(x) else float(x) for x in a],
    "{{ .reg .b64 w; cvt.f64.f32 w, {a}; mul.rn.f64 w, w, 0d3FD5555555555555; cvt.rm.f32.f64 {d}, w; }}":
        lambda a, b: [rounded(Fraction(float(x) * (1 / 3)), "rm") if x and math.isfinite(x) else float(x) for x in a],
}  # fmt: skip


@pytest.mark.parametrize("text", FLOATS)
def test_what_the_isa_says_of_floats(text):
    a, b = pairs(AWKWARD)
    with np.errstate(all="ignore"):
        same(run(text, np.float32, a, b), np.asarray(FLOATS[text](a, b), np.float32))


def test_signs_change_of_nans_too():
    bits = np.array([0x7FC00001, 0xFFC00001, 0x80000000], np.uint32)
    assert run("neg.f32 {d}, {a};", np.uint32, bits).tolist() == [0xFFC00001, 0x7FC00001, 0]
    assert run("abs.f32 {d}, {a};", np.uint32, bits).tolist() == [0x7FC00001, 0x7FC00001, 0]
    assert run("neg.f16x2 {d}, {a};", np.uint32, bits).tolist() == [0xFFC08001, 0x7FC08001, 0x8000]
    assert run("abs.bf16x2 {d}, {a};", np.uint32, bits | np.uint32(0x8000)).tolist() == [0x7FC00001, 0x7FC00001, 0]
    long = np.array([0x7FF8000000000001, 1 << 63], np.uint64)
    assert run("neg.f64 {d}, {a};", np.uint64, long).tolist() == [0xFFF8000000000001, 0]


CLASSES = {
    "finite": np.isfinite, "infinite": np.isinf, "number": lambda x: x == x, "notanumber": np.isnan,
    "normal": lambda x: np.isfinite(x) & (np.abs(x) >= np.float32(2.0**-126)), "subnormal": lambda x: (x != 0) & (np.abs(x) < np.float32(2.0**-126)),
}  # fmt: skip


@pytest.mark.parametrize("name", CLASSES)
def test_classes_of_floats(name):
    got = run(f"{{{{ .reg .pred p; testp.{name}.f32 p, {{a}}; selp.b32 {{d}}, 1, 0, p; }}}}", np.uint32, AWKWARD)
    assert got.tolist() == CLASSES[name](AWKWARD).astype(int).tolist()


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("le", lambda a, b: a <= b), ("gt", lambda a, b: a > b), ("equ", lambda a, b: not (a < b or a > b)),
        ("leu", lambda a, b: not a > b), ("gtu", lambda a, b: not a <= b), ("lt.ftz", lambda a, b: a < b), ("ge.ftz", lambda a, b: a >= b),
    ],
)  # fmt: skip
def test_other_comparisons_of_floats(name, function):
    a, b = pairs(AWKWARD)
    got = run(f"{{{{ .reg .pred p; setp.{name}.f32 p, {{a}}, {{b}}; selp.b32 {{d}}, 1, 0, p; }}}}", np.uint32, a, b)
    x, y = (flushed(each) if "ftz" in name else each for each in (a, b))
    assert got.tolist() == [int(function(float(one), float(other))) for one, other in zip(x, y, strict=True)]


BRAINS = np.array([0, 0x8000, 0x3F80, 0xBF80, 0x3F81, 0x0001, 0x8001, 0x0080, 0x7F7F, 0xFF7F, 0x4040, 0x3EAB, 0x3B80, 0x3C00, 0x4380], np.uint16)


@pytest.mark.parametrize("name", ["add", "sub", "mul", "fma"])
def test_bfloat16_rounds_once(name):
    a, b, c = pairs(BRAINS, 3) if name == "fma" else (*pairs(BRAINS), None)
    number = lambda bits: Fraction(float((np.uint32(bits) << np.uint32(16)).view(np.float32)))  # noqa: E731
    function = {"add": lambda x, y: x + y, "sub": lambda x, y: x - y, "mul": lambda x, y: x * y, "fma": lambda x, y, z: x * y + z}[name]
    inputs, more = ((a, b, c), ", {c}") if name == "fma" else ((a, b), "")
    got = run(f"{name}.rn.bf16 {{d}}, {{a}}, {{b}}{more};", np.uint16, *inputs)
    value = (got.astype(np.uint32) << np.uint32(16)).view(np.float32)
    for i in range(len(a)):
        exact = function(*(number(each[i]) for each in inputs))
        want = rounded(exact, "rn", 8, -126, (2 - 2.0**-7) * 2.0**127) if exact else 0.0
        assert float(value[i]) == want, (i, [hex(each[i]) for each in inputs])
    both = [each.astype(np.uint32) | each[::-1].astype(np.uint32) << np.uint32(16) for each in inputs]
    packed = run(f"{name}.rn.bf16x2 {{d}}, {{a}}, {{b}}{more};", np.uint32, *both)
    assert (packed & 0xFFFF == got).all() and (packed >> 16 == got[::-1]).all()


def test_pairs_of_halves_and_of_singles():
    halves = np.array([0, -0.0, 1, -1, 0.333, 65504, 6e-8, np.inf, np.nan, 2049, 1.001], np.float16)
    a, b = pairs(halves)
    x, y = (each.view(np.uint16).astype(np.uint32) | each[::-1].view(np.uint16).astype(np.uint32) << np.uint32(16) for each in (a, b))
    with np.errstate(all="ignore"):
        for text, want in {
            "add.f16x2 {d}, {a}, {b};": a + b, "mul.sat.f16x2 {d}, {a}, {b};": clamped(a * b), "max.f16x2 {d}, {a}, {b};": ordered_pick(max)(a, b),
            "fma.rn.f16x2 {d}, {a}, {b}, {a};": (a.astype(np.float64) * b + a).astype(np.float16),
        }.items():
            got = run(text, np.uint32, x, y)
            same((got & 0xFFFF).astype(np.uint16).view(np.float16), want)
            same((got >> 16).astype(np.uint16).view(np.float16), want[::-1])
        a, b = pairs(AWKWARD)
        x, y = (np.stack([each, each[::-1]], 1).view(np.uint64)[:, 0] for each in (a, b))
        got = run("fma.rn.f32x2 {d}, {a}, {b}, {b};", np.uint64, x, y).view(np.float32).reshape(-1, 2)
        same(got[:, 0], run("fma.rn.f32 {d}, {a}, {b}, {b};", np.float32, a, b))
        same(got[:, 1], got[::-1, 0])


def test_conversions_in_pairs_round_clip_and_flush():
    a, b = pairs(AWKWARD)
    halves = lambda x: run("cvt.rz.f16.f32 {d}, {a};", np.uint16, x).astype(np.uint32)  # noqa: E731
    assert (run("cvt.rz.f16x2.f32 {d}, {a}, {b};", np.uint32, a, b) == (halves(a) << 16 | halves(b))).all()
    brains = lambda x: run("cvt.rz.bf16.f32 {d}, {a};", np.uint16, x).astype(np.uint32)  # noqa: E731
    assert (run("cvt.rz.bf16x2.f32 {d}, {a}, {b};", np.uint32, a, b) == (brains(a) << 16 | brains(b))).all()
    number = AWKWARD[~np.isnan(AWKWARD)]
    got = run("cvt.rn.relu.f16x2.f32 {d}, {a}, {b};", np.uint32, number, -number).view(np.float16).reshape(-1, 2)
    with np.errstate(over="ignore"):
        assert (got[:, 1] == np.maximum(number, 0).astype(np.float16)).all() and (got[:, 0] == np.maximum(-number, 0).astype(np.float16)).all()
    x = np.array([1 + 2.0**-11, 1 + 3 * 2.0**-11, -(1 + 2.0**-11), 2.0**-126 + 2.0**-137, -np.inf, 1 + 2.0**-11 + 2.0**-23], np.float32)
    nearest = [1, 1 + 2.0**-9, -1, 2.0**-126, -np.inf, 1 + 2.0**-10]
    same(run("cvt.rn.tf32.f32 {d}, {a};", np.uint32, x).view(np.float32), np.array(nearest, np.float32))
    cut = [1, 1 + 2.0**-10, -1, 2.0**-126, -np.inf, 1]
    same(run("cvt.rz.tf32.f32 {d}, {a};", np.uint32, x).view(np.float32), np.array(cut, np.float32))
    nan = np.array([0x7F800001, 0xFFFFFFFF], np.uint32)
    for mode in ("rna", "rz"):
        assert run(f"cvt.{mode}.tf32.f32 {{d}}, {{a}};", np.uint32, nan).tolist() == [0x7FFFFFFF] * 2
    assert run("add.f32 {d}, {a}, {a};", np.uint32, nan).tolist() == [0x7FFFFFFF] * 2


def test_numbers_between_formats():
    ints = np.array([0, 1, -1, 2049, -2051, 65519, 65520, -(2**31), 2**31 - 1, 2**24 + 1, -(2**24) - 1], np.int32)
    for mode in ("rn", "rz", "rm", "rp"):
        same(run(f"cvt.{mode}.f16.s32 {{d}}, {{a}};", np.float16, ints), [rounded(Fraction(int(v)), mode, 11, -14, 65504.0) if v else 0.0 for v in ints])
        same(run(f"cvt.{mode}.f32.s32 {{d}}, {{a}};", np.float32, ints), [rounded(Fraction(int(v)), mode) if v else 0.0 for v in ints])
    unsigned = ints.view(np.uint32)
    same(run("cvt.rm.f32.u32 {d}, {a};", np.float32, unsigned), [rounded(Fraction(int(v)), "rm") if v else 0.0 for v in unsigned])
    same(run("cvt.rn.f64.s32 {d}, {a};", np.float64, ints), ints.astype(np.float64))
    same(run("cvt.rn.f64.u32 {d}, {a};", np.float64, unsigned), unsigned.astype(np.float64))
    big = np.array([2**63 + 2**10, 2**53 + 1, 2**53 + 3, 2**64 - 1], np.uint64)
    same(run("cvt.rn.f64.u64 {d}, {a};", np.float64, big), [float(int(v)) for v in big])
    same(run("cvt.rn.f64.s64 {d}, {a};", np.float64, big), [float(signed(int(v), 64)) for v in big])
    halves = np.array([2.5, -2.5, 3.5, 65504, -0.5, np.nan, -np.inf, 1e-7], np.float16)
    assert run("cvt.rni.s32.f16 {d}, {a};", np.int32, halves).tolist() == [2, -2, 4, 65504, 0, 0, -(2**31), 0]
    assert run("cvt.rpi.u32.f16 {d}, {a};", np.uint32, halves).tolist() == [3, 0, 4, 65504, 0, 0, 0, 1]
    same(run("cvt.f64.f16 {d}, {a};", np.float64, halves), halves.astype(np.float64))
    brains = np.array([0x3FC0, 0xC020, 0x4F80, 0x7FC1, 0x0001], np.uint16)  # 1.5, -2.5, 2**32, NaN, 2**-133
    same(run("cvt.f32.bf16 {d}, {a};", np.float32, brains), np.array([1.5, -2.5, 2.0**32, np.nan, 2.0**-133], np.float32))
    assert run("cvt.rmi.s32.bf16 {d}, {a};", np.int32, brains).tolist() == [1, -3, 2**31 - 1, 0, 0]
    tiny = np.array([2.0**-127, -(2.0**-127), 2.0**-126], np.float32)
    assert run("cvt.rpi.s32.f32 {d}, {a};", np.int32, tiny).tolist() == [1, 0, 1]
    assert run("cvt.rpi.ftz.s32.f32 {d}, {a};", np.int32, tiny).tolist() == [0, 0, 1]
    doubles = np.array([2.0**63, -(2.0**63), 2.0**64, 1e300, -1e300, 2.0**52 - 0.5, math.nan, 4294967295.5], np.float64)
    assert run("cvt.rzi.s64.f64 {d}, {a};", np.int64, doubles).tolist() == [2**63 - 1, -(2**63), 2**63 - 1, 2**63 - 1, -(2**63), 2**52 - 1, 0, 2**32 - 1]
    assert run("cvt.rzi.u64.f64 {d}, {a};", np.uint64, doubles).tolist() == [2**63, 0, 2**64 - 1, 2**64 - 1, 0, 2**52 - 1, 0, 2**32 - 1]
    assert run("cvt.rni.u32.f64 {d}, {a};", np.uint32, doubles).tolist() == [2**32 - 1, 0, 2**32 - 1, 2**32 - 1, 0, 2**32 - 1, 0, 2**32 - 1]
    with np.errstate(over="ignore"):
        single = [0.1, 1e300, 2.0**-150, 3 * 2.0**-151, -(2.0**-140)]
        same(run("cvt.rn.f16.f64 {d}, {a};", np.float16, np.array([0.1, 65520, -1e-9, 1e-7])), np.array([0.1, 65520, -1e-9, 1e-7]).astype(np.float16))
        same(run("cvt.rn.f32.f64 {d}, {a};", np.float32, np.array(single)), np.array(single).astype(np.float32))
        same(run("cvt.rn.ftz.f32.f64 {d}, {a};", np.float32, np.array(single)), flushed(np.array(single).astype(np.float32)))
        same(run("cvt.rn.sat.f32.f64 {d}, {a};", np.float32, np.array(single)), [np.float32(0.1), 1, 0, np.float32(3 * 2.0**-151), 0])


# ---------------------------------------------------------------- lanes of a warp

LANES = np.arange(256, dtype=np.uint32) % 32


def shuffled(mode, lane, by, clamp):
    by, limit, segment = by & 31, clamp & 31, clamp >> 8 & 31
    last, first = lane & segment | limit & ~segment, lane & segment
    source = {"up": lane - by, "down": lane + by, "bfly": lane ^ by, "idx": first | by & ~segment}[mode]
    inside = source >= last if mode == "up" else source <= last
    return (source if inside else lane), int(inside)


@pytest.mark.parametrize("mode", ["up", "down", "bfly", "idx"])
def test_shuffles_by_segments(mode):
    rng = np.random.default_rng(7)
    by = rng.integers(0, 64, len(LANES)).astype(np.uint32)
    width = np.repeat(np.array([32, 16, 8, 2], np.uint32), 64)
    clamp = (np.uint32(32) - width) << np.uint32(8) | np.uint32(0 if mode == "up" else 31)
    clamp[32:64] = rng.integers(0, 1 << 13, 32)  # any limit and segments that are no powers of two
    text = f"{{{{ .reg .pred p; .reg .b32 v, m; mov.u32 v, %laneid; shfl.sync.{mode}.b32 v|p, v, {{a}}, {{b}}, 0xFFFFFFFF;" \
        " selp.b32 m, 64, 0, p; add.u32 {d}, v, m; }}"
    got = run(text, np.uint32, by, clamp)
    want = [shuffled(mode, *map(int, each)) for each in zip(LANES, by, clamp, strict=True)]
    assert got.tolist() == [lane + 64 * inside for lane, inside in want]


@pytest.mark.parametrize(
    ("text", "function"),
    [
        ("vote.sync.ballot.b32 {d}, p, 0xFFFFFFFF;", lambda votes, values: sum(int(v) << i for i, v in enumerate(votes))),
        ("vote.sync.ballot.b32 {d}, !p, 0xFFFFFFFF;", lambda votes, values: sum(int(not v) << i for i, v in enumerate(votes))),
        ("vote.sync.all.pred q, p, 0xFFFFFFFF; selp.b32 {d}, 1, 0, q;", lambda votes, values: int(votes.all())),
        ("vote.sync.any.pred q, p, 0xFFFFFFFF; selp.b32 {d}, 1, 0, q;", lambda votes, values: int(votes.any())),
        ("vote.sync.any.pred q, !p, 0xFFFFFFFF; selp.b32 {d}, 1, 0, q;", lambda votes, values: int(not votes.all())),
        ("vote.sync.uni.pred q, p, 0xFFFFFFFF; selp.b32 {d}, 1, 0, q;", lambda votes, values: int(votes.all() or not votes.any())),
        ("redux.sync.add.u32 {d}, {a}, 0xFFFFFFFF;", lambda votes, values: sum(values) % 2**32),
        ("redux.sync.min.u32 {d}, {a}, 0xFFFFFFFF;", lambda votes, values: min(values)),
        ("redux.sync.max.u32 {d}, {a}, 0xFFFFFFFF;", lambda votes, values: max(values)),
        ("redux.sync.min.s32 {d}, {a}, 0xFFFFFFFF;", lambda votes, values: min(signed(v) for v in values) % 2**32),
        ("redux.sync.max.s32 {d}, {a}, 0xFFFFFFFF;", lambda votes, values: max(signed(v) for v in values) % 2**32),
        ("redux.sync.and.b32 {d}, {a}, 0xFFFFFFFF;", lambda votes, values: int(np.bitwise_and.reduce(np.array(values)))),
        ("redux.sync.or.b32 {d}, {a}, 0xFFFFFFFF;", lambda votes, values: int(np.bitwise_or.reduce(np.array(values)))),
        ("redux.sync.xor.b32 {d}, {a}, 0xFFFFFFFF;", lambda votes, values: int(np.bitwise_xor.reduce(np.array(values)))),
    ],
)  # fmt: skip
def test_votes_and_reductions_of_whole_warps(text, function):
    values = np.random.default_rng(8).integers(0, 2**32, 256).astype(np.uint32) | np.uint32(0x100)
    yes = np.tile([1, 0], 128)
    yes[32:64], yes[64:96], yes[96] = 0, 1, 0
    text = f"{{{{ .reg .pred p, q; setp.ne.u32 p, {{b}}, 0; {text} }}}}"
    got = run(text, np.uint32, values, yes.astype(np.uint32))
    for first in range(0, 256, 32):
        part = slice(first, first + 32)
        assert (got[part] == function(yes[part] != 0, values[part].tolist())).all()


VOTES = {"ballot": lambda votes: sum(int(v) << i for i, v in votes), "all": lambda votes: int(all(v for _, v in votes)),
         "any": lambda votes: int(any(v for _, v in votes)), "uni": lambda votes: int(len({bool(v) for _, v in votes}) == 1)}  # fmt: skip


@pytest.mark.parametrize("mode", VOTES)
@pytest.mark.parametrize("sign", ["", "!"])
def test_votes_of_parts_of_a_warp(mode, sign):
    """Lanes that stand by, and lanes of another member mask, have no vote."""
    vote = f"vote.sync.ballot.b32 {{d}}, {sign}p, %r4;" if mode == "ballot" else f"vote.sync.{mode}.pred q, {sign}p, %r4; selp.b32 {{d}}, 1, 0, q;"
    start = "{{ .reg .pred p, q; setp.ne.u32 p, {a}, 0; mov.u32 {d}, 7; "
    below = np.array([1] * 9 + [0] * 23, np.uint32)
    for yes in (below, 1 - below, np.uint32(LANES[:32] % 4 == 1), np.uint32(LANES[:32] == 20), np.uint32(LANES[:32] != 20)):
        votes = list(enumerate(yes != (sign == "!")))
        got = run(f"{start} mov.u32 %r4, 0xFFFFFE00; setp.lt.u32 %p2, %laneid, 9; @%p2 bra over; {vote} over: }}}}", np.uint32, yes)
        assert got.tolist() == [7] * 9 + [VOTES[mode](votes[9:])] * 23
        got = run(f"{start} mov.u32 %r5, %laneid; and.b32 %r5, %r5, 1; shl.b32 %r4, 0x55555555, %r5; {vote} }}}}", np.uint32, yes)
        assert got.tolist() == [VOTES[mode](votes[lane % 2 :: 2]) for lane in range(32)]


def test_who_is_active_elected_and_below():
    text = "{{ .reg .pred p; .reg .b32 l; mov.u32 l, %laneid; mov.u32 {d}, 5; setp.lt.u32 p, {a}, 7; @p activemask.b32 {d}; }}"
    got = run(text, np.uint32, LANES[:64])
    assert got.tolist() == [0x7F if lane < 7 else 5 for lane in LANES[:64]]
    text = "{{ .reg .pred p, q; setp.ge.u32 p, {a}, 9; mov.u32 {d}, 0; @!p bra over; elect.sync {d}|q, 0xFFFFFE00; @q add.u32 {d}, {d}, 64; over: }}"
    assert run(text, np.uint32, LANES[:64]).tolist() == [0 if lane < 9 else 9 + 64 * (lane == 9) for lane in LANES[:64]]
    pair = "{{ .reg .pred q; .reg .b32 m; and.b32 m, {a}, 30; shl.b32 m, 3, m; elect.sync {d}|q, m; @q add.u32 {d}, {d}, 64; }}"
    assert run(pair, np.uint32, LANES[:64]).tolist() == [lane // 2 * 2 + 64 * (lane % 2 == 0) for lane in LANES[:64]]
    for name, want in {
        "eq": lambda lane: 1 << lane, "lt": lambda lane: (1 << lane) - 1, "le": lambda lane: (2 << lane) - 1,
        "gt": lambda lane: 2**32 - (2 << lane), "ge": lambda lane: 2**32 - (1 << lane),
    }.items():  # fmt: skip
        assert run(f"mov.u32 {{d}}, %lanemask_{name};", np.uint32, LANES[:64]).tolist() == [want(int(lane)) for lane in LANES[:64]]


# ---------------------------------------------------------------- memory

SHARED = ".shared .align 16 .b8 sh[2048];"
PLACE = ".reg .b32 s; mov.u32 s, sh; mad.lo.u32 s, %tid.x, 16, s;"


@pytest.mark.parametrize(
    ("text", "function"),
    [
        ("st.shared.b32 [s], {a}; ld.shared.s8 {d}, [s];", lambda a, b: signed(a, 8)),
        ("st.shared.b32 [s], {a}; ld.shared.u8 {d}, [s+3];", lambda a, b: a >> 24),
        ("st.shared.b32 [s], {a}; ld.shared.s16 {d}, [s+2];", lambda a, b: signed(a >> 16, 16)),
        ("st.shared.b32 [s], {a}; ld.shared.u16 {d}, [s];", lambda a, b: a & 0xFFFF),
        ("st.shared.b32 [s], {a}; st.shared.b8 [s+1], {b}; ld.shared.b32 {d}, [s];", lambda a, b: a & ~0xFF00 | (b & 255) << 8),
        ("st.shared.b32 [s], {a}; st.shared.b16 [s+2], {b}; ld.shared.b32 {d}, [s];", lambda a, b: a & 0xFFFF | (b & 0xFFFF) << 16),
        (".reg .b32 x; st.shared.v2.b32 [s+8], {{{a}, {b}}}; ld.shared.b32 {d}, [s+12]; ld.shared.v2.b32 {{x, {d}}}, [s+8]; sub.u32 {d}, {d}, x;",
         lambda a, b: b - a),
        (".reg .b32 x, y, z; st.shared.v4.b32 [s], {{{a}, {b}, 5, 9}}; ld.shared.v4.b32 {{x, y, z, {d}}}, [s]; mad.lo.u32 {d}, z, {d}, y; sub.u32 {d}, {d}, x;",
         lambda a, b: 45 + b - a),
        (".reg .b64 g; cvt.u64.u32 g, s; cvta.shared.u64 g, g; st.b32 [g+4], {a}; cvta.to.shared.u64 g, g; ld.shared.b32 {d}, [g+4];", lambda a, b: a),
        (".reg .b64 g; .reg .pred p, q, r; cvt.u64.u32 g, s; cvta.shared.u64 g, g; isspacep.shared p, g; isspacep.global q, g; isspacep.local r, g;"
         " selp.b32 {d}, 1, 0, p; @q add.u32 {d}, {d}, 2; @r add.u32 {d}, {d}, 4;", lambda a, b: 1),
        (".reg .pred p, q, r; isspacep.shared p, %rd2; isspacep.global q, %rd2; isspacep.local r, %rd2;"
         " selp.b32 {d}, 1, 0, p; @q add.u32 {d}, {d}, 2; @r add.u32 {d}, {d}, 4;", lambda a, b: 2),
        (".local .align 8 .b8 mine[8]; .reg .b64 g; .reg .pred p, q, r; mov.u64 g, mine; cvta.local.u64 g, g; isspacep.shared p, g; isspacep.global q, g;"
         " isspacep.local r, g; st.b32 [g+4], {b}; selp.b32 {d}, 1, 0, p; @q add.u32 {d}, {d}, 2; @r add.u32 {d}, {d}, 4; cvta.to.local.u64 g, g;"
         " .reg .b32 x; ld.local.b32 x, [g+4]; add.u32 {d}, {d}, x;", lambda a, b: 4 + b),
    ],
)  # fmt: skip
def test_parts_of_words_and_vectors_in_memory(text, function):
    a, b = pairs(INTS)
    got = run(f"{{{{ {PLACE} {text} }}}}", np.uint32, a, b, declare=SHARED)
    assert got.tolist() == [function(int(x), int(y)) & 0xFFFFFFFF for x, y in zip(a, b, strict=True)]


def test_parts_of_parameters():
    """Each half of an address, by itself and of a pair."""
    a = np.arange(64, dtype=np.uint32)
    for load in ("ld.param.v2.u32 {{v, w}}, [p_a];", "ld.param.u32 v, [p_a]; ld.param.u32 w, [p_a+4];"):
        text = f"{{{{ .reg .b32 v, w; .reg .b64 g; {load} mov.b64 g, {{{{v, w}}}}; mad.wide.u32 g, {{a}}, 4, g; ld.global.b32 {{d}}, [g]; }}}}"
        assert (run(text, np.uint32, a) == a).all()


@pytest.mark.parametrize(("count", "trans"), [(1, ""), (2, ".trans"), (4, ""), (4, ".trans")])
def test_matrices_are_loaded_from_rows_in_any_order(count, trans):
    """Of two warps of each CTA, whose lanes name rows of the other warp's; the address has an offset."""
    a = np.random.default_rng(3).integers(0, 2**32, 128).astype(np.uint32)
    rows = np.stack([a, ~a, a ^ np.uint32(0x1234ABCD), a], 1).reshape(2, 64, 4).view(np.uint16)  # [CTA, row, column]
    names = ", ".join(f"m{i}" for i in range(count))
    for matrix in range(count):
        text = f"{PLACE} .reg .b32 {names}, u, w, q; not.b32 u, {{a}}; xor.b32 w, {{a}}, 0x1234ABCD; st.shared.v4.b32 [s], {{{{{{a}}, u, w, {{a}}}}}};" \
            " bar.sync 0; mad.lo.u32 q, %tid.x, 7, 3; and.b32 q, q, 63; mov.u32 s, sh; mad.lo.u32 q, q, 16, s; sub.u32 q, q, 32;" \
            f" ldmatrix.sync.aligned.m8n8.x{count}{trans}.shared.b16 {{{{{names}}}}}, [q+32]; mov.b32 {{d}}, m{matrix};"
        got = run(f"{{{{ {text} }}}}", np.uint32, a, declare=SHARED).view(np.uint16).reshape(2, 2, 8, 4, 2)  # [CTA, warp, g, t, half]
        for warp in range(2):
            taken = rows[:, (7 * (32 * warp + 8 * matrix + np.arange(8)) + 3) % 64]
            want = (taken.transpose(0, 2, 1) if trans else taken).reshape(2, 8, 4, 2)
            assert (got[:, warp] == want).all()


UPDATES = {
    "add.u32": lambda old, x: old + x, "min.u32": min, "max.u32": max, "min.s32": lambda old, x: min(signed(old), signed(x)),
    "max.s32": lambda old, x: max(signed(old), signed(x)), "and.b32": lambda old, x: old & x, "or.b32": lambda old, x: old | x,
    "xor.b32": lambda old, x: old ^ x, "exch.b32": lambda old, x: x, "inc.u32": lambda old, x: 0 if old >= x else old + 1,
    "dec.u32": lambda old, x: x if old == 0 or old > x else old - 1, "cas.b32": lambda old, x: 77 if old == x else old,
}  # fmt: skip


@pytest.mark.parametrize("name", UPDATES)
@pytest.mark.parametrize("together", [1, 2])
def test_atomic_operations_return_what_was_there(name, together):
    """Alone, and two lanes at a place, the lower one first."""
    a, b = pairs(INTS)
    if together == 2:
        a = np.repeat(a[::2], 2)
    last = ", 77" if name.startswith("cas") else ""
    place = PLACE if together == 1 else ".reg .b32 s; shr.u32 s, %tid.x, 1; mov.u32 {d}, sh; mad.lo.u32 s, s, 16, {d};"
    text = f"{place} .reg .b32 o; st.shared.b32 [s], {{a}}; bar.sync 0; atom.shared.{name} o, [s], {{b}}{last}; bar.sync 0; ld.shared.b32 {{d}}, [s];"
    function = UPDATES[name]
    old, new = (run(f"{{{{ {text} {end} }}}}", np.uint32, a, b, declare=SHARED).tolist() for end in ("mov.b32 {d}, o;", ""))
    want_old, want_new = [], []
    for first in range(0, len(a), together):
        value, group = int(a[first]), range(first, first + together)
        for lane in group:
            want_old.append(value)
            value = function(value, int(b[lane])) % 2**32
        want_new += [value] * together
    assert (old, new) == (want_old, want_new)


def test_atomic_sums_of_floats_and_of_some_lanes():
    a, b = pairs(AWKWARD[np.isfinite(AWKWARD)])
    text = f"{PLACE} .reg .b32 o; st.shared.b32 [s], {{a}}; atom.shared.add.f32 o, [s], {{b}}; ld.shared.b32 {{d}}, [s];"
    with np.errstate(over="ignore"):
        same(run(f"{{{{ {text} }}}}", np.float32, a, b, declare=SHARED), a + b)
    text = f"{PLACE} .reg .pred p; setp.lt.u32 p, {{a}}, 5; st.shared.b32 [sh], 100; bar.sync 0; mov.u32 {{d}}, 1; " \
        "@p atom.shared.add.u32 {d}, [sh], {a}; bar.sync 0; @!p ld.shared.u32 {d}, [sh];"
    got = run(f"{{{{ {text} }}}}", np.uint32, np.arange(64, dtype=np.uint32), declare=SHARED)
    assert got.tolist() == [100, 100, 101, 103, 106, *[110] * 59]


# ---------------------------------------------------------------- copies in groups, barriers by name

COPY = "cp.async.ca.shared.global [s], [%rd2], 4; {} cp.async.ca.shared.global [s+4], [%rd2], 4; {}"
COMMIT = "cp.async.commit_group;"
FLYING = "a copy in flight has not yet filled"


@pytest.mark.parametrize(
    ("text", "fine"),
    [
        (COPY.format(COMMIT, COMMIT) + "cp.async.wait_group 1; ld.shared.b32 {d}, [s];", True),
        (COPY.format(COMMIT, COMMIT) + "cp.async.wait_group 1; ld.shared.b32 {d}, [s+4];", False),
        (COPY.format(COMMIT, COMMIT) + "cp.async.wait_group 2; ld.shared.b32 {d}, [s];", False),
        (COPY.format(COMMIT, COMMIT) + "cp.async.wait_group 0; ld.shared.b32 {d}, [s+4];", True),
        (COPY.format(COMMIT, COMMIT) + "ld.shared.b32 {d}, [s];", False),
        (COPY.format(COMMIT, "") + "cp.async.wait_group 0; ld.shared.b32 {d}, [s];", True),
        (COPY.format(COMMIT, "") + "cp.async.wait_group 0; ld.shared.b32 {d}, [s+4];", False),
        (COPY.format(COMMIT, "") + "cp.async.wait_all; ld.shared.b32 {d}, [s+4];", True),
        # lanes below 16 alone commit the first copy, or wait
        (COPY.format("@p " + COMMIT, COMMIT) + "cp.async.wait_group 1; mov.b32 {d}, {a}; @p ld.shared.b32 {d}, [s];", True),
        (COPY.format("@p " + COMMIT, COMMIT) + "cp.async.wait_group 1; mov.b32 {d}, {a}; @!p ld.shared.b32 {d}, [s];", False),
        (COPY.format(COMMIT, COMMIT) + "@p cp.async.wait_group 0; mov.b32 {d}, {a}; @p ld.shared.b32 {d}, [s+4];", True),
        (COPY.format(COMMIT, COMMIT) + "@p cp.async.wait_group 0; mov.b32 {d}, {a}; @!p ld.shared.b32 {d}, [s];", False),
        (COPY.format(COMMIT, "") + "cp.async.wait_group 0; st.shared.b32 [s+4], {a}; mov.b32 {d}, {a};", False),
    ],
)  # fmt: skip
def test_a_wait_lands_the_groups_it_covers_and_no_more(text, fine):
    a = np.arange(64, dtype=np.uint32) + np.uint32(9)
    text = f"{{{{ {PLACE} .reg .pred p; setp.lt.u32 p, {{a}}, 25; {text} }}}}"
    if fine:
        assert (run(text, np.uint32, a, declare=SHARED) == a).all()
    else:
        with pytest.raises(EmulationError, match=FLYING):
            run(text, np.uint32, a, declare=SHARED)


@pytest.mark.parametrize("size", [4, 8, 16])
def test_a_copy_fills_up_with_zeros(size):
    """Each lane takes some of its bytes, of which the rest need not be there."""
    taken = np.arange(64, dtype=np.uint32) % np.uint32(size + 1)
    words = np.random.default_rng(1).integers(1, 2**32, 65).astype(np.uint32)
    whole = words[: 64 // (size // 4)].view(np.uint8).reshape(-1, size)
    got = []
    for word in range(size // 4):
        text = f"{PLACE} .reg .b64 g; ld.param.u64 g, [p_b]; mad.wide.u32 g, %r1, {size}, g; cp.async.ca.shared.global [s], [g], {size}, {{a}};" \
            f" cp.async.wait_all; ld.shared.b32 {{d}}, [s+{4 * word}];"
        got.append(run(f"{{{{ {text} }}}}", np.uint32, taken[: len(whole)], words[:64], declare=SHARED)[: len(whole)])
    want = np.where(np.arange(size) < taken[: len(whole), None], whole, 0).astype(np.uint8)
    assert (np.stack(got, 1).view(np.uint8).reshape(-1, size) == want).all()


def test_a_copy_of_some_bytes_reads_those_of_another_cta_too_early_and_no_others():
    """The first CTA stores the fourth word of what the second one copies."""
    a = np.arange(128, dtype=np.uint32)
    text = f"{PLACE} .reg .b64 g; .reg .pred q; ld.param.u64 g, [p_b]; mad.wide.u32 g, %tid.x, 16, g; setp.eq.u32 q, %r2, 0; mov.u32 {{d}}, {{a}};" \
        " @q st.global.b32 [g+12], {a}; @!q cp.async.ca.shared.global [s], [g], 16, {c}; cp.async.wait_all;"
    run(f"{{{{ {text} }}}}", np.uint32, a, np.tile(a, 2), np.full_like(a, 12), declare=SHARED)
    with pytest.raises(EmulationError, match="another CTA wrote"):
        run(f"{{{{ {text} }}}}", np.uint32, a, np.tile(a, 2), np.full_like(a, 13), declare=SHARED)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("cp.async.ca.shared.global [s], [%rd2], 4, 5;", "takes more bytes than it copies"),
        ("cp.async.ca.shared.global [s], [%rd2], 16;", "a copy of 16 bytes is not aligned"),
        ("cp.async.cg.shared.global [s], [%rd2], 8;", "cp.async.cg cannot copy 8 bytes"),
        ("cp.async.ca.shared.global [s], [%rd2], 2;", "cp.async.ca cannot copy 2 bytes"),
        ("cp.async.ca.shared.global [s], [%rd2+4], 4;", "reaches outside its buffer"),
        ("add.u32 s, s, 0x2000000; ld.shared::cluster.b32 {d}, [s];", "the address is of no CTA of the cluster"),
        ("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {{{d}}}, [s+8];", "an access of 16 bytes is not aligned"),
        ("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {{{d}}}, [s];", "there are not as many registers as matrices"),
        ("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {{{d}}}, [s], {a};", "instruction has 3 operands"),
        ("ld.shared.v2.b32 {{{d}}}, [s];", "does not have as many registers as the access has members"),
        ("st.shared.v2.b32 [s], {{{d}}};", "there are not as many registers as the access has members"),
        ("ld.shared.b32 {d}, [s], {a};", "instruction has 3 operands"),
        ("st.shared.b32 [s], {a}, {a};", "instruction has 3 operands"),
        ("ld.param.b32 {d}, [q];", "parameter is not declared"),
        ("red.shared.add.b16 [s], {a};", "type b16 is not supported here"),
        ("red.shared.max.f32 [s], {a};", "type f32 is not supported here"),
        ("red.shared.add.u32 [s], {a}, {a};", "instruction has 3 operands"),
        ("vote.sync.any.pred %p2, %p2, -1, {a};", "instruction has 4 operands"),
        ("shfl.sync.idx.b32 {d}, {a}, 1, 31, -1, {a};", "instruction has 6 operands"),
        ("bar.arrive 1, 64, {a};", "instruction has 3 operands"),
        ("bar.arrive 1, 64;", "threads only arrive at a barrier, and none waits"),
        ("mov.u32 %r4, 48; bar.sync 1, %r4;", "a barrier for part of a warp"),
        ("@%p2 bar.sync 1, 64;", "a barrier in divergent code"),
        ("setp.lt.u32 %p2, %tid.x, 32; @%p2 bra one; bar.sync 0; bra over; one: bar.sync 0; over:", "warps of one CTA meet at different barriers"),
        ("ld.shared.v4.b32 {{{d}, %r3, %r4, %r5}}, [s+8];", "an access of 16 bytes is not aligned"),
        ("ld.shared.v4.b64 {{%rd1, %rd1, %rd1, %rd1}}, [s];", "access is wider than 16 bytes"),
        ("ld.shared.b32 {d}, [s+2033];", "reaches outside shared memory"),
        ("div.u32 {d}, {a}, {d};", "an integer is divided by zero"),
        ("mov.u32 %r4, 0xFFFFFFFD; bar.warp.sync %r4;", "a warp barrier is executed by a lane its member mask leaves out"),
        ("mov.u32 %r4, 0xFFFFFFFD; shfl.sync.idx.b32 {d}, {a}, 1, 31, %r4;", "a shuffle is executed by a lane its member mask leaves out"),
        ("mov.u32 %r4, 0xFFFFFFFD; vote.sync.any.pred %p2, %p2, %r4;", "a vote is executed by a lane its member mask leaves out"),
        ("mov.u32 %r4, 0xFFFFFFFD; elect.sync {d}|%p2, %r4;", "an election is executed by a lane its member mask leaves out"),
        ("mov.u32 %r4, 0x1FF; @%p2 shfl.sync.idx.b32 {d}, {a}, 9, 31, %r4;", "a shuffle reads a lane that does not take part"),
        ("mov.u32 %r4, -1; @%p2 bar.warp.sync %r4;", "a warp barrier names lanes in its member mask that do not reach it"),
        ("mov.b32 %r4, 5; mov.b32 %r4, %r5; add.u32 {d}, %r4, {a};", "a register is read before it was written"),
        ("selp.b32 {d}, %r5, {a}, %p2;", "a register is read before it was written"),
        ("selp.b32 {d}, {a}, %r5, %p2;", "a register is read before it was written"),
        ("@%p2 selp.b32 {d}, %r5, {a}, %p2;", "a register is read before it was written"),
        ("selp.b32 {d}, %r5, %r5, %p2;", "a register is read before it was written"),
    ],
)  # fmt: skip
def test_what_copies_barriers_and_accesses_must_not_do(text, problem):
    text = f"{{{{ {PLACE} mov.u32 {{d}}, 0; setp.lt.u32 %p2, {{a}}, 9; {text} }}}}"
    with pytest.raises(EmulationError, match=problem):
        run(text, np.uint32, np.arange(128, dtype=np.uint32), declare=SHARED)


@pytest.mark.parametrize("text", [
    "setp.lt.u32 q, {a}, 0; selp.b32 {d}, %r5, {a}, q;", "setp.ge.u32 q, {a}, 0; selp.b32 {d}, {a}, %r5, q;",
    "mov.u32 {d}, {a}; @%p2 selp.b32 {d}, {a}, %r5, %p2;", "mov.u32 {d}, {a}; @!%p2 selp.b32 {d}, %r5, {a}, %p2;",
])  # fmt: skip
def test_a_register_that_no_lane_selects_need_not_have_a_value(text):
    """Compilers read both sides of `c ? x : y`, also where x has one only if c."""
    a = np.arange(1, 65, dtype=np.uint32)
    assert np.array_equal(run(f"{{{{ .reg .pred q; setp.lt.u32 %p2, {{a}}, 9; {text} }}}}", np.uint32, a), a)


def test_a_try_wait_gives_up_where_another_warp_waits_for_its_own():
    """Nothing completes the phase, and warp 0 stands at a barrier that warp 1 comes to only once its wait has returned false."""
    init = "setp.eq.u32 %p2, %tid.x, 0; mov.u32 s, sh; @%p2 mbarrier.init.shared.b64 [s], 1; bar.sync 0; mov.u32 {d}, 7;"
    wait = "setp.lt.u32 %p2, %tid.x, 32; @%p2 bra meet; mbarrier.try_wait.parity.shared.b64 q, [s], 0; selp.b32 {d}, 1, 0, q; meet: bar.sync 0;"
    got = run(f"{{{{ .reg .b32 s; .reg .pred q; {init} {wait} }}}}", np.uint32, np.zeros(64, np.uint32), declare=SHARED)
    assert got.tolist() == [7] * 32 + [0] * 32


def test_barriers_by_name_count_threads_of_their_own_cta():
    """Warp 0 of each CTA brings what warp 1 waits for, twice."""
    first = "setp.lt.u32 %p2, %tid.x, 32; mov.u32 s, sh; mad.lo.u32 s, %laneid, 4, s; mov.u32 {d}, 0; @!p2 bra use;"
    bring = "st.shared.b32 [s], {a}; bar.arrive %r2, 64; bar.sync 5, 64; add.u32 {d}, {a}, 1000; st.shared.b32 [s], {d}; bar.arrive %r2, 64; bra over;"
    use = "use: bar.sync %r2, 64; ld.shared.b32 {d}, [s]; bar.arrive 5, 64; bar.sync %r2, 64; ld.shared.b32 s, [s]; mad.lo.u32 {d}, s, 10000, {d}; over:"
    text = f"{{{{ .reg .b32 s; add.u32 %r2, %r2, 1; {first} {bring} {use} }}}}".replace("@!p2", "@!%p2")
    a = np.arange(128, dtype=np.uint32)
    got = run(text, np.uint32, a, declare=SHARED).reshape(2, 2, 32)
    brought = a.reshape(2, 2, 32)[:, 0]
    assert (got[:, 0] == brought + 1000).all() and (got[:, 1] == brought + 10000 * (brought + 1000)).all()


# ---------------------------------------------------------------- boxes of tensors


def test_a_box_that_reaches_out_of_its_tensor_at_every_side_is_filled_with_zeros():
    arena, tensor = Arena(), np.arange(1, 3 * 5 * 16 + 1, dtype=np.uint16).reshape(3, 5, 16)
    buffer = arena.allocate(tensor.nbytes, "tensor")
    arena.fill(buffer, tensor.view(np.uint8).reshape(-1))
    framed = np.zeros((3 + 8, 5 + 8, 16 + 64), np.uint16)
    framed[4:7, 4:9, 32:48] = tensor
    one = TensorMap(buffer, 2, (16, 5, 3), (32, 160), (8, 3, 2))
    same_map = TensorMap.decode(one.encode())
    assert (same_map.extents, same_map.strides, same_map.box, same_map.address, same_map.nbytes) == ((16, 5, 3), (32, 160), (8, 3, 2), buffer.address, 96)
    for x in (-9, -8, -3, 0, 8, 9, 15, 16, 20):
        for y, z in ((-3, 0), (-1, -1), (0, 2), (3, 1), (4, -2), (5, 1), (1, 3)):
            want = framed[4 + z :][:2, 4 + y :][:, :3, 32 + x :][..., :8]
            assert (one.fetch(arena, (x, y, z)).view(np.uint16).reshape(2, 3, 8) == want).all(), (x, y, z)
            assert same_map.fetch(arena, (x, y, z)).tobytes() == one.fetch(arena, (x, y, z)).tobytes()


@pytest.mark.parametrize(("swizzle", "bits"), [(32, 1), (64, 3), (128, 7)])
def test_a_swizzle_turns_the_chunks_of_a_line_by_the_lines_address(swizzle, bits):
    one = TensorMap(1 << 36, 1, (swizzle, 16), (swizzle,), (swizzle, 16), swizzle)
    chunks = np.repeat(np.arange(swizzle, dtype=np.uint8), 16)  # as many chunks as 16 rows have, each its number
    for target in (0, 256, 1024):
        got = one.swizzled(chunks, target).reshape(-1, 16)[:, 0]
        for chunk in range(swizzle):
            address = target + 16 * chunk
            to = (address >> 4 ^ address >> 7 & bits) - target // 16
            assert got[to] == chunk


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ((2, (64, 8), (128, 8), (32, 8), 0), "dimensions do not fit"), ((2, (64, 8), (128,), (32,), 0), "dimensions do not fit"),
        ((2, (64,) * 6, (128,) * 5, (8,) * 6, 0), "dimensions do not fit"), ((2, (64, 8), (128,), (32, 8), 16), "no such swizzle"),
        ((2, (64, 8), (136,), (32, 8), 0), "not aligned"), ((2, (64, 0), (128,), (32, 8), 0), "does not fit"), ((2, (64, 8), (128,), (32, 0), 0), "does not fit"),
        ((2, (512, 8), (1024,), (264, 8), 0), "does not fit"), ((2, (64, 8), (128,), (40, 8), 64), "rows of a box have 80 bytes"),
        ((2, (64, 8), (128,), (4, 8), 0), "rows of a box have 8 bytes"),
    ],
)  # fmt: skip
def test_maps_of_tensors_that_a_gpu_would_not_take(arguments, problem):
    with pytest.raises(EmulationError) as refused:
        TensorMap(1 << 36, *arguments)
    assert problem in refused.value.problem and refused.value.needs
    with pytest.raises(EmulationError, match="not aligned"):
        TensorMap((1 << 36) + 8, 2, (64, 8), (128,), (32, 8), 64)
    TensorMap(1 << 36, 2, (512, 8), (1024,), (256, 256), 0)  # the largest
    TensorMap(1 << 36, 2, (64, 8), (128,), (32, 8), 64)  # a row as long as its swizzle


ANSWER = """
.version 9.5
.target sm_80
.address_size 64
.visible .entry k(.param .u64 p)
{
.reg .b32 %r1; .reg .b64 %rd1;
.loc 1 7 0
mov.u32 %r1, 41; ld.param.u64 %rd1, [p]; add.u32 %r1, %r1, 1; st.global.u32 [%rd1], %r1; ret;
}"""


def test_an_argument_is_told_what_its_declaration_takes():
    text = ANSWER.replace(".param .u64 p", ".param .u64 .ptr .global .align 4 p, .param .u64 q, .param .f32 x, .param .s32 n")
    with Emulator(text, UNITS.get("ampere"), processes=1) as machine:
        out = machine.alloc(4, name="out")
        right = [out, out.address, 1.5, -3]
        for at, wrong, needs in ((0, 5, "a Buffer or None"), (1, 2.5, "a Buffer, None or an int"), (2, 1, "a float"), (3, 1 << 32, "an int of 32 bits")):
            with pytest.raises(EmulationError) as told:
                machine.launch("k", (1, 1, 1), (32, 1, 1), 0, [*right[:at], wrong, *right[at + 1:]])
            assert (told.value.got, told.value.needs) == (wrong, needs) and f"argument {at} " in told.value.where
        machine.launch("k", (1, 1, 1), (32, 1, 1), 0, right)
        assert machine.read(out, np.uint32, 1) == [42]


def test_dynamic_shared_memory_begins_where_its_strictest_name_may():
    names = "".join(f".extern .shared .align {align} .b8 {name}[];\n" for name, align in (("words", 4), ("lines", 128), ("halves", 2)))
    places = "".join(f"mov.u32 %r1, {name}; st.global.u32 [%rd1+{4 * at}], %r1; " for at, name in enumerate(("own", "words", "lines", "halves")))
    text = ANSWER.replace(".visible", f"{names}.visible").replace("ld.param.u64", ".shared .align 4 .b8 own[12]; ld.param.u64").replace("ret;", f"{places}ret;")
    with Emulator(text, UNITS.get("ampere"), processes=1) as machine:
        out = machine.alloc(16, name="out")
        machine.launch("k", (1, 1, 1), (32, 1, 1), 64, [out])
        assert machine.read(out, np.uint32, 4).tolist() == [0, 128, 128, 128]


def test_without_fork_one_process_runs_all_strips(monkeypatch):
    """And each CTA once."""
    monkeypatch.setattr(strips.multiprocessing, "get_all_start_methods", lambda: ["spawn"])
    monkeypatch.setattr(strips, "_Workers", None)
    with Emulator(ANSWER, UNITS.get("ampere"), processes=4, strip=2) as machine:
        stats = machine.launch("k", (5, 1, 1), (32, 1, 1), 0, [machine.alloc(4, name="out")])
        assert stats.ctas == 5


def test_a_place_and_an_instruction_in_words():
    """An instruction of no known line has the file's name alone, and one that would fill lines is cut."""
    source, short = Source("k.cu", ("first", "  second  ")), SimpleNamespace(text="ret;", line=2, callers=(9,))
    assert (source.where("k", short), source.quote(short)) == ("k.cu:2 (entry k, inlined at line 9)", "`ret;` from `second`")
    assert source.site(short) == "k.cu:2, inlined at line 9"
    long = SimpleNamespace(text=200 * "r" + ";", line=0, callers=())
    assert (source.where("k", long), source.quote(long)) == ("k.cu (entry k)", f"`{200 * 'r'} ...`")
    assert source.quote(SimpleNamespace(text=200 * "r", line=3, callers=())) == f"`{200 * 'r'}`"


def test_emulators_of_one_text_share_its_program_and_nothing_else():
    """A decoded program is kept: it cannot be changed, and it tells places by the source that it was decoded with."""
    first, again, other = (Emulator(ANSWER, UNITS.get("ampere"), source_name=name, processes=1) for name in ("a.cu", "a.cu", "b.cu"))
    assert again.programs is first.programs and other.programs is not first.programs
    outs = [machine.alloc(4, name="out") for machine in (first, again)]
    for machine, out in zip((first, again), outs):
        with pytest.raises(EmulationError):
            machine.read(out, np.uint32, 1)
        machine.launch("k", (1, 1, 1), (32, 1, 1), 0, [out])
        assert machine.read(out, np.uint32, 1) == [42]
    for machine, name in ((first, "a.cu"), (other, "b.cu")):
        with pytest.raises(EmulationError) as error:
            machine.launch("k", (1, 1, 1), (32, 1, 1), 0, [None])
        assert error.value.where == f"{name}:7 (entry k)"
    program = first.programs["k"]
    with pytest.raises(TypeError):
        first.programs["k"] = program
    with pytest.raises(TypeError):
        program.blocks[0].code[0] = None
    with pytest.raises(ValueError, match="read-only"):
        next(iter(program.constants.values()))[...] = 0


def flown(registers: Registers, slot: int, first: float = 10, group: int = 5, mask: np.ndarray | None = None) -> None:
    """Hand a register to a group of matrix instructions that write first, first + 1 and so on."""
    registers.fly(slot, np.arange(registers.lanes, dtype=np.float32) + first, np.full(registers.lanes, group, np.int32), mask)


def test_a_mov_of_a_register_in_flight_goes_to_some_lanes():
    """Those lanes wait for the matrix instruction that has the source; the others keep what the target held, in flight or not."""
    some = np.array([True, True, False, False])
    registers = Registers(4, 5)
    registers.put(1, np.arange(4, dtype=np.float32), None)
    flown(registers, 0)
    flown(registers, 2, first=20, group=7)
    assert registers.rename(4, 2, None)
    for target, kept, groups in ((1, [2, 3], -1), (2, [22, 23], 7), (3, [0, 0], -1)):
        assert registers.rename(target, 0, some)
        moved = registers.r[target]
        assert (moved.data.tolist(), moved.groups.tolist(), moved.written) == ([10, 11, *kept], [5, 5, groups, groups], True)
    assert registers.rename(3, 0, None) and registers.r[3] is registers.r[0]
    last = registers.r[4]
    assert registers.rename(-1, 0, None) and registers.r[4] is last


SOME, LAST = np.array([True, True, False, False]), np.array([False, False, False, True])
STEPS: dict[str, tuple[list[tuple], int | None]] = {
    # what is done to the registers, flown(slot) or rename(target, slot), each with its mask; the lane at which the last step is a fault
    "another's last name": ([(0, None), (1, None), (1, 0, None)], 0),
    "an older one's last name": ([(1, None), (0, None), (1, 0, None)], 0),
    "its last name in some lanes": ([(0, None), (1, None), (1, 0, LAST)], 3),
    "a name of some lanes, in others": ([(0, None), (1, SOME), (1, 0, LAST)], None),
    "a name of some lanes, in these": ([(0, None), (1, SOME), (1, 0, None)], 0),
    "a name beside another": ([(0, None), (1, None), (2, 1, None), (1, 0, None)], None),
    "a name beside another in some lanes": ([(0, None), (1, None), (2, 1, SOME), (1, 0, None)], 2),
    "a name beside another in these lanes": ([(0, None), (1, None), (2, 1, SOME), (1, 0, SOME)], None),
    "a name beside another, added to in other lanes": ([(0, None), (1, None), (2, 1, None), (1, SOME), (1, 0, LAST)], None),
    "its own": ([(0, None), (0, 0, None)], None),
    "the older of two names": ([(0, None), (1, 0, None), (1, None), (0, 1, None)], None),  # a loop's: what was added to goes back to its first name
    "the older of two names in some lanes": ([(0, None), (1, 0, SOME), (1, SOME), (0, 1, SOME)], None),
    "the newer of two names": ([(0, None), (1, 0, None), (1, None), (1, 0, None)], 0),
    "the newer of two names in some lanes": ([(0, None), (1, 0, SOME), (1, SOME), (1, 0, None)], 0),
    "two in turn": ([(0, None), (1, None), (2, 0, None), (0, 1, None), (1, 2, None)], None),
    "what is read": ([(0, None), "read", (1, 0, None)], 0),
    "what is read in some lanes": ([(0, None), "read", (1, 0, LAST)], 3),
    "what is read and a name in some lanes": ([(0, SOME), "some read", (1, 0, SOME)], None),
    "what a load from tensor memory writes": ([(0, None), "load", (1, 0, None)], 0),
    "a name after the wait": ([(0, None), (1, None), "wait", (2, None), (1, 2, None)], None),
}


@pytest.mark.parametrize(("steps", "lane"), STEPS.values(), ids=STEPS)
def test_a_mov_takes_no_last_name_from_a_register_in_flight(steps, lane):
    registers, group = Registers(4, 5), np.full(4, 5, np.int32)
    for number in range(5):
        registers.put(number, np.zeros(4, np.float32), None)
    written = []

    def step(one):
        if one == "wait":
            registers.finished[:] = 6
        elif one in ("read", "some read"):
            for slot in (1, 3):
                registers.fly(slot, None, group, None if one == "read" else LAST)
        elif one == "load":
            registers.fly(1, np.zeros(4, np.float32), group, None, load=True)
        elif len(one) == 2:
            flown(registers, one[0], 10 * len(written), 7 if "wait" in written else 5, one[1])
        else:
            registers.rename(*one)
        written.append(one)

    for one in steps[:-1]:
        step(one)
    if lane is None:
        step(steps[-1])
        return
    before = registers.r[steps[-1][0]]
    with pytest.raises(Fault, match="a register is written that a (wgmma|tcgen05.ld) may not have (written|read) yet") as error:
        step(steps[-1])
    assert error.value.lane == lane and error.value.needs and registers.r[steps[-1][0]] is before
    assert ("read yet" in str(error.value)) == ("read" in steps) and ("tcgen05" in str(error.value)) == ("load" in steps)


def test_lanes_that_are_done_may_be_written_beside_others_that_are_not():
    registers, number = Registers(4, 2), np.dtype(np.float32)
    flown(registers, 0)
    registers.rename(1, 0, None)
    registers.finished[:2] = 6
    first = registers.r[0].stamp
    registers.put(0, np.full(4, 7, np.float32), SOME)
    beside = registers.r[0]
    assert beside.data.tolist() == [7, 7, 12, 13] and registers.r[1].data.tolist() == [10, 11, 12, 13]
    assert (beside.groups.tolist(), beside.stamp.tolist(), beside.written, beside.load) == ([-1, -1, 5, 5], [-1, -1, first, first], True, False)
    registers.active = SOME
    assert registers.get(0, number)[:2].tolist() == [7, 7]
    registers.active = None
    with pytest.raises(Fault, match="read that a wgmma may not have written") as error:
        registers.get(0, number)
    assert error.value.lane == 2
    with pytest.raises(Fault, match="written that a wgmma may not have written") as error:
        registers.put(0, np.zeros(4, np.float32), LAST)
    assert error.value.lane == 3
    registers.finished[2:] = 6
    registers.put(0, np.full(4, 8, np.float32), LAST)
    assert registers.r[0].tolist() == [7, 7, 12, 8]
    flown(registers, 1, group=7)
    with pytest.raises(Fault, match="is written that"):
        registers.put(1, np.zeros(4, np.float32), None)
    registers.finished[:] = 8
    registers.put(1, np.arange(4, dtype=np.float32), None)
    assert registers.r[1].tolist() == [0, 1, 2, 3]


def test_lanes_that_a_mov_leaves_out_are_only_read_as_before():
    """Of a register that a wgmma only reads, some lanes are given one in flight: the others may be read, and not written."""
    registers = Registers(4, 3)
    for number in range(3):
        registers.put(number, np.arange(4, dtype=np.float32), None)
    flown(registers, 0, mask=SOME)
    registers.fly(1, None, np.full(4, 5, np.int32), LAST)
    assert registers.rename(1, 0, SOME) and registers.r[1].written.tolist() == [True, True, False, False]
    registers.active = ~SOME
    assert registers.get(1, np.dtype(np.float32)).tolist() == [10, 11, 2, 3]
    for mask, problem in ((LAST, "written that a wgmma may not have read"), (SOME, "written that a wgmma may not have written")):
        with pytest.raises(Fault, match=problem):
            registers.put(1, np.zeros(4, np.float32), mask)
    with pytest.raises(Fault, match="may not have read"):
        registers.accumulator(1)
    registers.active = SOME
    with pytest.raises(Fault, match="a register is read that a wgmma may not have written"):
        registers.get(1, np.dtype(np.float32))
    assert registers.accumulator(1).tolist() == [10, 11, 2, 3]


def test_a_part_of_a_buffer_lies_within_it_and_nothing_else_is_one():
    """Beside two buffers: the first's whole, its last byte, and neither a byte more, nor before, nor another's name at its place."""
    arena = Arena()
    first, second = arena.allocate(64, "x"), arena.allocate(32, "y")
    for offset, nbytes in ((0, 64), (63, 1), (64, 0)):
        part = arena.slice(Buffer("x", first.address + offset, nbytes))
        assert (part.start - arena.slice(first).start, part.stop - part.start) == (offset, nbytes)
    for buffer in (Buffer("x", first.address, 65), Buffer("x", first.address - 1, 2), Buffer("y", first.address, 4), Buffer("z", second.address, 4)):
        with pytest.raises(EmulationError, match="is not a buffer of this emulator"):
            arena.slice(buffer)
