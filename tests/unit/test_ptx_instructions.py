"""Single instructions against exact arithmetic, on values chosen to go wrong."""

import math
from fractions import Fraction

import numpy as np
import pytest

from gemmgen.catalog.unit import UNITS
from gemmgen.emulate import Emulator

WIDTH = {"u8": 16, "s8": 16, "u16": 16, "s16": 16, "f16": 16, "b16": 16, "bf16": 16}
TINY, LARGEST = 2.0**-149, (2 - 2.0**-23) * 2.0**127
AWKWARD = np.array(
    [
        0.0, -0.0, 1.0, -1.0, TINY, -TINY, 3 * TINY, 2.0**-126, 2.0**-127, LARGEST, -LARGEST, math.inf,
        -math.inf, math.nan, 1 + 2.0**-23, 1 - 2.0**-24, 2.0**-12, 1 + 2.0**-12, 2.0**24, 2.0**24 + 2,
        1.5, 0.1, -3.3333333, 65504, 65519.996, 65520, 65536, 2.0**-24, 2.0**-25, 2.0**-25 * 1.0000001,
        6.1e-5, 1 + 2.0**-11, 1 + 3 * 2.0**-11, 2.5, -2.5, 3.5, 2147483648.0, 4294967296.0, 1e-30, 1e30,
    ],
    np.float32,
)  # fmt: skip


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
