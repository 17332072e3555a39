"""What a matrix unit really returns, or what multiplies without one: one instruction on chosen words, beside what its model says.

The models of AMD's units, and some of NVIDIA's, rest on publications. Each tile here asks for something that such a model must know:
which bits alignment keeps, in which order it sums, what becomes of subnormal numbers, and how sums of integers wrap around.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from gemmgen.build import build
from gemmgen.catalog.fragment import FRAGMENTS, Fragment
from gemmgen.catalog.gpu import Gpu
from gemmgen.catalog.number import FORMATS, INTEGERS, Format, Integer, sum_type
from gemmgen.catalog.unit import MatrixUnit
from gemmgen.emulate.core import units
from gemmgen.emulate.core.rounding import fma
from gemmgen.errors import SpecError
from gemmgen.fragment_header import fragment_header
from gemmgen.plan import Plan
from gemmgen.render import C_TYPES, Source, render_text
from gemmgen.run import Device, open_device, open_on, why_not

KERNEL = "unit_probe"
_RAW = units.RAW | {"f32": np.dtype(np.uint32)}
Exponents = tuple[int, int] | str
"""Of random numbers, the least and the largest; or one of these:"""
_ZERO, _SUBNORMAL = "zero", "subnormal"


@dataclass(frozen=True)
class Tiles:
    """The tiles and what was returned for them.

    Attributes:
        fragment: the instruction, once.
        names: of each tile, what it asks.
        a, b: [tiles, m, k] and [tiles, k, n], words as they are stored.
        c: [tiles, m, n] FP32, INT32 of integers, what the sums begin with.
        d: [tiles, m, n] as c, what the unit returned.
        modelled: [tiles, m, n] as c, what the model of the unit returns; None where there is none of these words.
    """

    fragment: Fragment
    names: tuple[str, ...]
    a: np.ndarray
    b: np.ndarray
    c: np.ndarray
    d: np.ndarray
    modelled: np.ndarray | None

    def agreeing(self, tile: int) -> int | None:
        """Elements of a tile that are the model's, bit for bit; None without a model."""
        if self.modelled is None:
            return None
        return int((self.d[tile].view(np.uint32) == self.modelled[tile].view(np.uint32)).sum())

    @property
    def summary(self) -> str:
        """The comparison in one line."""
        if self.modelled is None:
            return f"no model of {self.fragment.word} words to compare with"
        odd = [name for tile, name in enumerate(self.names) if self.agreeing(tile) != self.d[tile].size]
        agreeing = sum(self.agreeing(tile) or 0 for tile in range(len(self.names)))
        return f"{agreeing} of {self.d.size} dot products as modelled" + (f"; others in: {', '.join(odd)}" if odd else "")

    def as_dict(self) -> dict[str, Any]:
        """For a record: arrays as hex digits of their elements in turn, each with its highest digit first."""
        return {
            "instruction": self.fragment.instruction, "word": self.fragment.word, "shape": list(self.fragment.shape),
            "tiles": [
                {
                    "asks": name, **{x: _hex(getattr(self, x)[tile]) for x in "abcd"},
                    "elements": self.d[tile].size, "as_modelled": self.agreeing(tile),
                }
                for tile, name in enumerate(self.names)
            ],
        }


def _hex(array: np.ndarray) -> str:
    return array.astype(array.dtype.newbyteorder(">")).tobytes().hex()


def probe_unit(plan: Plan, kind: str) -> Tiles:
    """Run the plan's instruction on the tiles.

    Args:
        kind: the device, as `open_device` takes it.

    Raises:
        GemmgenError: the probe cannot be compiled or run.
    """
    usable = (row for row in FRAGMENTS.rows() if row.builtin == plan.fragment.builtin and row.runs_on(plan.arch))
    fragment = next(usable)  # the plan's may be several of it
    source = probe_source(fragment, plan.arch)
    device = open_device(kind, plan, source, build(source))
    try:
        return probe(device, fragment, plan.gpu)
    finally:
        device.release()


def probe_source(fragment: Fragment, arch: str) -> Source:
    """The kernel that `probe` launches: a block of the instruction's threads a tile, which reads a, b and c and writes d.

    Raises:
        SpecError: lanes hold none of the fragment's operands.
    """
    m, n, k = fragment.shape
    platform = fragment.maker.platform
    text = render_text(
        "unit_probe.j2", header=fragment_header(fragment), fragment=fragment, name=KERNEL, m=m, n=n, k=k, value=C_TYPES[sum_type(fragment.word)],
        platform_file=f"platform/{platform}.j2", block={"cuda": "blockIdx.x", "hip": "__builtin_amdgcn_workgroup_id_x()"}[platform],
    )
    return Source(name=KERNEL, text=text, suffix=fragment.maker.files.source_suffix, interface=None, arch=arch, allow_spills=False)


def probe_here(fragment: Fragment, gpu: Gpu) -> Tiles:
    """Run one instruction on the GPU at hand.

    Args:
        gpu: the row that it is one of.

    Raises:
        SpecError: the row's GPUs do not have the instruction, or lanes hold none of its operands.
        DeviceError: no such GPU is here, or it failed.
    """
    if not fragment.runs_on(gpu.arch):
        raise SpecError(
            "gemmgen list fragments", "is no instruction of that GPU", got=f"{fragment.name} on {gpu.name}, {gpu.arch}",
            needs=fragment.targets or " ".join(fragment.archs or (f"sm_{fragment.min_arch} or newer",)), remedy="gemmgen list gpus",
        )
    if reason := why_not(gpu):
        raise reason
    device = open_on(gpu, build(probe_source(fragment, fragment.arch or gpu.arch)))
    try:
        return probe(device, fragment, gpu)
    finally:
        device.release()


def probe(device: Device, fragment: Fragment, gpu: Gpu) -> Tiles:
    """Run one instruction on the tiles.

    Args:
        device: one that `probe_source` of the fragment was built for.
        gpu: whose unit's model the answers are compared with.
    """
    names, a, b, c = tiles(fragment)
    buffers = [device.upload(x, name) for x, name in ((a, "a"), (b, "b"), (c, "c"))]
    buffers.append(device.empty(c.nbytes, "d"))
    device.launch(KERNEL, len(names), fragment.threads, 0, [("pointer", buffer) for buffer in buffers])
    d = device.download(buffers[-1], c.dtype, c.size).reshape(c.shape)
    return Tiles(fragment, names, a, b, c, d, modelled(gpu.unit, fragment, a, b, c))


def modelled(unit: MatrixUnit, fragment: Fragment, a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray | None:
    """What the model of a unit returns, or, without a unit, one multiply-add a k in order; None where there is no model."""
    if fragment.on_matrix_unit:
        return units.mma(unit.of(fragment.word, fragment.policy), fragment.word, a, b, c) if fragment.word in unit.words else None
    with np.errstate(all="ignore"):
        for k in range(fragment.shape[2]):
            c = fma(_decoded(fragment, a[:, :, k, None]), _decoded(fragment, b[:, k, None, :]), c)
    return c


def _decoded(fragment: Fragment, raw: np.ndarray) -> np.ndarray:
    """The numbers that words of the fragment's type stand for."""
    return units.decode(fragment.word, raw) if fragment.on_matrix_unit else raw.view(np.float32)


def tiles(fragment: Fragment) -> tuple[tuple[str, ...], np.ndarray, np.ndarray, np.ndarray]:
    """(what each tile asks, A [tiles, m, k], B [tiles, k, n], C [tiles, m, n]), the same at every call."""
    rng = np.random.Generator(np.random.PCG64(0))
    chosen = _integers(fragment, INTEGERS[fragment.word], rng) if fragment.word in INTEGERS else _floats(fragment, FORMATS[fragment.word], rng)
    names, *arrays = zip(*chosen)
    a, b, c = map(np.stack, arrays)
    return names, a, b, c


def _integers(fragment: Fragment, word: Integer, rng: np.random.Generator) -> Iterator[tuple[str, np.ndarray, np.ndarray, np.ndarray]]:
    m, n, k = fragment.shape
    total = INTEGERS["s32"]

    def words(rows: int, columns: int, low: int = word.least) -> np.ndarray:
        return rng.integers(low, word.largest + 1, (rows, columns)).astype(_RAW[fragment.word])

    a, b = words(m, k), words(k, n)
    yield "any words", a, b, rng.integers(-(1 << 20), 1 << 20, (m, n)).astype(np.int32)
    yield "sums that cancel", a, b, -(a.astype(np.int32) @ b.astype(np.int32))
    yield "the least word", np.full_like(a, word.least), np.full_like(b, word.least), rng.integers(0, 9, (m, n)).astype(np.int32)
    yield "sums that wrap around", words(m, k, 0), words(k, n, 1), np.full((m, n), total.largest, np.int32)
    yield "sums that wrap around below", words(m, k, 0), -words(k, n, 1), np.full((m, n), total.least, np.int32)


def _floats(fragment: Fragment, word: Format, rng: np.random.Generator) -> Iterator[tuple[str, np.ndarray, np.ndarray, np.ndarray]]:
    m, n, k = fragment.shape

    def words(rows: int, columns: int, exponents: Exponents) -> np.ndarray:
        return drawn(rng, word, _RAW[fragment.word], (rows, columns), exponents)

    def sums(exponents: Exponents) -> np.ndarray:
        return drawn(rng, FORMATS["f32"], np.dtype(np.uint32), (m, n), exponents).view(np.float32)

    def opposite(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        exact = _decoded(fragment, a).astype(np.float64) @ _decoded(fragment, b).astype(np.float64)
        return -exact.astype(np.float32)

    # Words whose products are subnormal FP32 numbers; where there are none, as of f16, only C is subnormal.
    tiny = _ZERO if 2 * word.min_exponent > FORMATS["f32"].min_exponent else (-70, -66)
    for asks, of_a, of_b, of_c in (
        ("terms of one size", (-2, 0), (-2, 0), (-2, 2)),
        ("terms far apart", (-12, 12), (-12, 12), (-24, 24)),
        ("sums that cancel", (-2, 0), (-2, 0), opposite),
        ("subnormal words", _SUBNORMAL, (0, 8), (word.min_exponent - 12, word.min_exponent)),
        ("subnormal words on both sides", _SUBNORMAL, _SUBNORMAL, (2 * word.min_exponent, 2 * word.min_exponent + 4)),
        ("subnormal sums", tiny, tiny, _SUBNORMAL),
    ):
        a, b = words(m, k, of_a), words(k, n, of_b)
        yield asks, a, b, of_c(a, b) if callable(of_c) else sums(of_c)


def drawn(rng: np.random.Generator, form: Format, raw: np.dtype, shape: tuple[int, int], exponents: Exponents) -> np.ndarray:
    """Random numbers of a format as they are stored: either sign, any fraction, exponents of a range that the format has."""
    if exponents == _ZERO:
        return np.zeros(shape, raw)
    exponent_bits = (form.max_exponent + form.bias).bit_length()
    largest = form.max_exponent - (form.specials == "nan")  # whose every fraction is a number
    fraction = rng.integers(0, 1 << form.fraction_bits, shape)
    biased = 0
    if exponents != _SUBNORMAL:
        low, high = (max(form.min_exponent, min(largest, exponent)) for exponent in exponents)
        biased = rng.integers(low, high + 1, shape) + form.bias
    bits = (rng.integers(0, 2, shape) << exponent_bits | biased) << form.fraction_bits | fraction
    return (bits << (8 * raw.itemsize - 1 - exponent_bits - form.fraction_bits)).astype(raw)
