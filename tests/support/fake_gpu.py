"""A GPU for a bring-up that nobody has described: its maps, its arithmetic and its limits are hidden, and what one sees of it are launches and memory.

It multiplies registers as `templates/bringup.j2` says its kernels do, without compiler or emulator.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from fake_kernels import FakeKernels, FakeLimits, FakeRates

from gemmgen.catalog.conversion import RAW, decode
from gemmgen.catalog.fragment import Fragment
from gemmgen.catalog.number import INTEGERS
from gemmgen.catalog.unit import MatrixUnit
from gemmgen.emulate.core import units
from gemmgen.render import Source
from gemmgen.workshop.bringup.probe import LOADED, REGISTERS, register_counts

Multiply = Callable[[str, np.ndarray, np.ndarray, np.ndarray], np.ndarray]
"""(word type, [tiles, m, k] and [tiles, k, n] words, [tiles, m, n]) -> [tiles, m, n]."""
Place = tuple[int, int, int]


@dataclass
class FakeGpu:
    """The GPU.

    Attributes:
        multiply: what its unit does.
        moved: of an operand, where the real place (lane, register, word) of the catalog's row lies: (a function of it, by operand).
        told: what its driver says.
        limits, rates: what it holds, and how fast it is.
    """

    multiply: Multiply
    moved: Mapping[str, Callable[[Place], Place]] = field(default_factory=dict)
    told: Mapping[str, Any] = field(default_factory=dict)
    arch: str = "sm_90"
    name: str = "a made-up GPU"
    kind: str = "cuda"
    launches: int = 0
    limits: FakeLimits = field(default_factory=FakeLimits)
    rates: FakeRates = field(default_factory=FakeRates)

    def kernels(self, source: Source) -> FakeKernels:
        return FakeKernels(self.limits, self.rates, source)

    def sensors(self) -> None:
        return None

    def open(self, fragment: Fragment) -> FakeDevice:
        return FakeDevice(self, fragment)

    def facts(self) -> Mapping[str, Any]:
        return {"title": self.name, "arch": self.arch, **self.told}


class FakeDevice:
    """One of its kernels."""

    kind, clusters_at_once = "cuda", None

    def __init__(self, gpu: FakeGpu, fragment: Fragment):
        self.gpu, self.fragment, self.name = gpu, fragment, gpu.name
        self.maps = {name: self._map(name) for name in "abc" if getattr(fragment, name)}

    def _map(self, operand: str) -> tuple[np.ndarray, np.ndarray]:
        """Row and column [threads, registers, words in one] of what lies there."""
        held = getattr(self.fragment, operand)
        rows, columns = (np.zeros((self.fragment.threads, held.register_count, held.packed_count), int) for _ in range(2))
        move = self.gpu.moved.get(operand, lambda place: place)
        for place in np.ndindex(rows.shape):
            rows[move(place)], columns[move(place)] = held.element(*place)
        return rows, columns

    def upload(self, array: np.ndarray, name: str, misalign: int = 0) -> np.ndarray:
        return np.frombuffer(array.tobytes(), np.uint8).copy()

    def empty(self, nbytes: int, name: str) -> np.ndarray:
        return np.full(nbytes, 0xFF, np.uint8)

    zeros = empty

    def download(self, buffer: np.ndarray, dtype: Any, count: int) -> np.ndarray:
        return buffer.view(dtype)[:count].copy()

    def release(self) -> None:
        pass

    def launch(self, symbol: str, blocks: int, threads: int, shared_bytes: int, args: list[tuple[str, np.ndarray]], overlaps: bool = False) -> None:
        assert threads == self.fragment.threads and all(kind == "pointer" for kind, _ in args)
        self.gpu.launches += 1
        {REGISTERS: self._registers, LOADED: self._loaded}[symbol](blocks, *(buffer for _, buffer in args))

    def _matrix(self, operand: str, memory: np.ndarray, tiles: int) -> np.ndarray:
        """What registers in memory hold, [tiles, rows, columns]."""
        m, n, k = self.fragment.shape
        extents = {"a": (m, k), "b": (k, n), "c": (m, n)}[operand]
        word = self._type(operand)
        if operand not in self.maps:
            return memory.view(word).reshape(tiles, *extents)
        rows, columns = self.maps[operand]
        found = np.zeros((tiles, *extents), word)
        found[:, rows, columns] = memory.view(word).reshape(tiles, *rows.shape)
        return found

    def _type(self, operand: str) -> np.dtype:
        word = self.fragment.word
        return RAW[word] if operand != "c" else np.dtype(np.int32 if word in INTEGERS else np.float32)

    def _registers(self, tiles: int, a: np.ndarray, b: np.ndarray, c: np.ndarray, d: np.ndarray) -> None:
        with np.errstate(all="ignore"):
            result = self.gpu.multiply(self.fragment.word, *(self._matrix(name, x, tiles) for name, x in zip("abc", (a, b, c))))
        rows, columns = self.maps["c"]
        d[:] = np.ascontiguousarray(result[:, rows, columns].astype(self._type("c"))).view(np.uint8).reshape(-1)

    def _loaded(self, _: int, *memory: np.ndarray) -> None:
        for name, matrix, registers in zip("abc", memory[:3], memory[3:]):
            rows, columns = self.maps[name]
            words = matrix.view(self._type(name)).reshape(16, 16)[rows, columns]
            assert words.nbytes == 4 * self.fragment.threads * register_counts(self.fragment)[name]
            registers[:] = np.ascontiguousarray(words).view(np.uint8).reshape(-1)


def by_row(rule: str, block: int, fraction_bits: int | None = None, *, inner: int | None = None, sum_bits: int | None = None, flushes: bool | None = None) -> Multiply:
    """A unit that a row of specs/units says."""
    def multiply(word, a, b, c):
        if word in INTEGERS:
            return (a.astype(np.int64) @ b.astype(np.int64) + c).astype(np.int32)
        blocks = {word: block} | ({"f16": inner} if inner else {})
        unit = MatrixUnit.model_construct(
            name="hidden", source="made up", rule=rule, fraction_bits=fraction_bits, sum_bits=sum_bits, block=blocks, integers=(), variants=(),
            flushes_subnormals=flushes, verified="", unverified_words=(), unchecked=None,
        )
        return units.mma(unit, word, a, b, c)

    return multiply


def in_order(inner: Multiply, order: list[int]) -> Multiply:
    """The same, but for the order of k."""
    return lambda word, a, b, c: inner(word, a[:, :, order], b[:, order], c)


def with_words(inner: Multiply, change: Callable[[str, np.ndarray], np.ndarray]) -> Multiply:
    """The same on changed words."""
    return lambda word, a, b, c: inner(word, change(word, a), change(word, b), c)


def flushed(word: str, raw: np.ndarray) -> np.ndarray:
    """Subnormal words as zero."""
    from gemmgen.catalog.number import FORMATS

    return np.where(np.abs(decode(word, raw)) < 2.0 ** FORMATS[word].min_exponent, raw.dtype.type(0), raw)


def aligning(
    bits: int, block: int, *, terms: Callable = np.trunc, sums: Callable = np.trunc, sum_bits: int = 23, flush_sums: bool = False, flush_sum_in: bool = False,
) -> Multiply:
    """A unit that no row says: terms aligned as by rule truncate, but otherwise rounded."""
    def multiply(word, a, b, c):
        from gemmgen.catalog.number import FORMATS
        from gemmgen.emulate.core.unit_rules import exponent

        least, tiny = FORMATS[word].min_exponent, 2.0**-126
        left, right = decode(word, a).astype(np.float64), decode(word, b).astype(np.float64)
        total = c.copy()
        for k in range(0, a.shape[2], block):
            x, y = left[:, :, None, k : k + block], right.transpose(0, 2, 1)[:, None, :, k : k + block]
            addend = np.where(np.abs(total) < tiny, np.float32(0), total) if flush_sum_in else total
            products, addend = x * y, addend.astype(np.float64)
            top = np.where(products == 0, -20000, exponent(x, least) + exponent(y, least)).max(-1)
            top = np.maximum(top, np.where(addend == 0, -20000, exponent(addend, -126)))
            exact = np.ldexp(terms(np.ldexp(products, (bits - top)[..., None])).sum(-1) + terms(np.ldexp(addend, bits - top)), top - bits)
            place = exponent(exact, -126) - sum_bits
            result = np.ldexp(sums(np.ldexp(exact, -place)), place).astype(np.float32)
            result = np.where(np.abs(result) < tiny, np.float32(0), result) if flush_sums else result
            odd = ~(np.isfinite(products).all(-1) & np.isfinite(addend))
            total = np.where(odd, products.sum(-1) + addend, result).astype(np.float32) + np.float32(0)
            total = np.where(np.isnan(total), np.uint32(0x7FFFFFFF).view(np.float32), total)
        return total

    return multiply
