"""What a scheme computes on a matrix unit, bit for bit, without a kernel."""

from __future__ import annotations

from dataclasses import replace
from functools import singledispatch

import numpy as np

from gemmgen.catalog.conversion import RAW, to_float8
from gemmgen.catalog.number import INTEGERS, word_bytes
from gemmgen.catalog.scheme import OFFSET, Family, ResidueWords, Runs, Scheme, Tiles
from gemmgen.catalog.unit import MatrixUnit
from gemmgen.emulate.core import units
from gemmgen.emulate.core.rounding import fma
from gemmgen.model.error import mean_cut
from gemmgen.split import Words, joined, set_aside, split

SPARE_BITS = 4
"""Low bits of a sum's 24 that are zero where its additions have lost nothing: a compensated sum of these is given nothing back."""


def product(
    scheme: Scheme, unit: MatrixUnit | None, a: np.ndarray, b: np.ndarray, *, promote: int = 0, fragment_k: int = 16, compensated: bool = False,
    to_the_end: bool = False, part: slice | np.ndarray = slice(None),
) -> np.ndarray:
    """A [M, K] B [K, N] of the scheme's elements, as a kernel without slices of k computes it.

    Args:
        unit: that multiplies; None for FP32 multiply-adds of floating-point words, one k after another.
        a, b: FP32.
        promote: k between moves of the accumulators that the scheme promotes into FP32 registers; 0 never.
        fragment_k: k of one matrix instruction; of several types of words, of the leading ones': integer sums are exact in any order.
        compensated: whether only a sum's leading bits move and the rest stays in the accumulator, which is empty afterwards otherwise.
        to_the_end: whether sums move once more at the end of a k that is no multiple of `promote`; where runs end, they always do.
        part: the k that are summed, one after another: a slice or, of words whose scales are not of runs, indices, of tiles of k whole ones. The words, and
            the scales of rows and runs, are those of all.

    Raises:
        EmulationError: the unit has no such words.
    """
    if scheme.family.tile_k:  # whose scales are of the part alone
        a, b, part = a[:, part], b[part], slice(None)
    of_a, of_b = split(a, scheme, operand="a"), split(np.ascontiguousarray(b.T), scheme, operand="b")
    if scheme.family.run_k:
        return _by_runs(scheme.family, unit, of_a, of_b, promote, fragment_k, compensated, part)
    of_a, of_b = (replace(words, planes=words.planes[:, :, part]) for words in (of_a, of_b))
    return _product(scheme.family, unit, a[:, part], b[part], of_a, of_b, promote, fragment_k, compensated, to_the_end)


@singledispatch
def _product(
    family: Family, unit: MatrixUnit | None, a: np.ndarray, b: np.ndarray, of_a: Words, of_b: Words, promote: int, fragment_k: int, compensated: bool,
    to_the_end: bool,
) -> np.ndarray:
    scheme = family.scheme
    left, right = _raw(of_a, fragment_k), _raw(of_b, fragment_k)
    inside = {acc.name: np.zeros((a.shape[0], b.shape[1], 1), np.int32 if acc.type == "s32" else np.float32) for acc in scheme.accumulators}
    outside = {acc.name: inside[acc.name] for acc in scheme.accumulators if promote and acc.promoted}
    zero = np.zeros((a.shape[0], b.shape[1], 1), np.float32)
    for k in range(0, -(-a.shape[1] // fragment_k) * fragment_k, fragment_k):
        step = slice(k, k + fragment_k)
        for each in scheme.products:
            word = of_a.words[each.a].type
            if unit is None:
                inside[each.into] = _by_lanes(of_a.planes[each.a][:, step], of_b.planes[each.b][:, step], inside[each.into])
                continue
            inside[each.into] = units.mma_columns(unit, word, left[each.a][step], right[each.b][step], inside[each.into])
        if promote and ((k + fragment_k) % promote == 0 or to_the_end and k + fragment_k >= a.shape[1]):
            for name in outside:
                moved = leading(inside[name]) if compensated else inside[name]
                outside[name], inside[name] = outside[name] + moved, inside[name] - moved if compensated else zero
    if not compensated:
        inside |= {name: total + inside[name] for name, total in outside.items()}
    else:
        inside |= {name: given_back(inside[name], total, mean_cut(scheme, unit, scheme.accumulator(name), promote)) for name, total in outside.items()}
    result = scheme.family.recombination.combine(
        {name: total.astype(np.float32).astype(np.float64) for name, total in inside.items()},  # which rounds INT32
        lambda so_far, factor, own: (so_far * factor + own).astype(np.float32).astype(np.float64),
    )
    if compensated:  # what stayed in the accumulators is small beside the sums
        for total in outside.values():
            result = (result + total).astype(np.float32).astype(np.float64)
    return np.ldexp(result[:, :, 0], -(of_a.exponents[:, None] + of_b.exponents)).astype(np.float32)


def _by_lanes(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """Words' numbers [M, K] and [N, K] added into c [M, N, 1], each product and sum in one rounding to nearest."""
    total = c[:, :, 0]
    for x, y in zip(a.T.astype(np.float32), b.T.astype(np.float32)):
        total = fma(x[:, None], y[None, :], total)
    return total[:, :, None]


@_product.register
def _(
    family: ResidueWords, unit: MatrixUnit | None, a: np.ndarray, b: np.ndarray, of_a: Words, of_b: Words, promote: int, fragment_k: int, compensated: bool,
    to_the_end: bool,
) -> np.ndarray:
    """Sums of integers, which no order changes."""
    return joined(of_a, of_b, family.scheme)


@_product.register
def _(
    family: Tiles, unit: MatrixUnit | None, a: np.ndarray, b: np.ndarray, of_a: Words, of_b: Words, promote: int, fragment_k: int, compensated: bool,
    to_the_end: bool,
) -> np.ndarray:
    """The same where each tile of k has scales of its own: its INT32 sums become one number, which is scaled and added up in FP32."""
    scheme, tile_k, b = family.scheme, family.tile_k, np.ascontiguousarray(b.T)

    def scales(x: np.ndarray, words: Words) -> np.ndarray:
        return np.where(set_aside(x, scheme), np.nan, np.ldexp(1.0, -words.exponents)).astype(np.float32)

    left, right = _raw(of_a, tile_k), _raw(of_b, tile_k)
    of_rows, of_columns = scales(a, of_a), scales(b, of_b)
    c = np.zeros((a.shape[0], b.shape[0]), np.float32)
    for tile in range(of_rows.shape[1]):
        sums = {accumulator.name: np.zeros((*c.shape, 1), np.int32) for accumulator in scheme.accumulators}
        for k in range(tile * tile_k, (tile + 1) * tile_k, fragment_k):
            step = slice(k, k + fragment_k)
            for each in scheme.products:
                sums[each.into] = units.mma_columns(unit, scheme.leading, left[each.a][step], right[each.b][step], sums[each.into])
        number = family.moved.number(
            {name: (total[:, :, 0] + OFFSET).astype(np.float32) for name, total in sums.items()},
            lambda so_far, factor, own: fma(own, np.float32(factor), so_far), lambda own, offset: own - np.float32(offset),
        )
        c = fma(number, of_rows[:, tile, None] * of_columns[None, :, tile], c)
    return c


def _by_runs(
    family: Runs, unit: MatrixUnit, of_a: Words, of_b: Words, promote: int, fragment_k: int, compensated: bool, part: slice,
) -> np.ndarray:
    """The same where runs of k have scales of their own: sums in FP32 of any magnitude, since a kernel keeps them in units that hold them. What leaves
    FP32's range in the end, or where a sum stands for itself, is one rounding of the smallest numbers."""
    scheme, (start, stop, _) = family.scheme, part.indices(of_a.planes.shape[2])
    left, right = _raw(of_a, fragment_k), _raw(of_b, fragment_k)
    shape, main = (of_a.planes.shape[1], of_b.planes.shape[1], 1), next(acc.name for acc in scheme.accumulators if acc.promoted)
    inside = {acc.name: np.zeros(shape, np.float32) for acc in scheme.accumulators}
    total, since = np.zeros(shape), 0  # FP32 numbers, in FP64; k since sums moved
    for k in range(start, stop, fragment_k):
        step, run = slice(k, k + fragment_k), k // family.run_k
        back = -(of_a.exponents[:, run, None] + of_b.exponents[None, :, run])[:, :, None]
        for each in scheme.products:
            inside[each.into] = units.mma_columns(unit, of_a.words[each.a].type, left[each.a][step], right[each.b][step], inside[each.into])
        done, last, since = k + fragment_k, k + fragment_k >= stop, since + fragment_k
        ends = last or done % family.run_k == 0
        if since == promote or ends:
            since = 0
            moved = leading(inside[main]) if compensated else inside[main]
            total = _wide(total + np.ldexp(moved.astype(np.float64), back))
            inside[main] = inside[main] - moved
        if not ends:
            continue
        rest = family.recombination.combine(
            {name: of_one.astype(np.float64) for name, of_one in inside.items()}, lambda so_far, factor, own: _wide(so_far * factor + own),
        )
        if last and compensated:
            cut = mean_cut(scheme, unit, scheme.accumulator(main), promote)
            rest = given_back(rest.astype(np.float32), np.ldexp(total, -back).astype(np.float32), cut).astype(np.float64)
        if last or not compensated:
            total, rest = _wide(total + np.ldexp(rest, back)), np.zeros(shape)
        else:  # it goes on from there in the accumulator
            ahead = -(of_a.exponents[:, run + 1, None] + of_b.exponents[None, :, run + 1])[:, :, None]
            rest = np.ldexp(rest, back - ahead)
        inside = {name: rest.astype(np.float32) if name == main else np.zeros(shape, np.float32) for name in inside}
    return total[:, :, 0].astype(np.float32)


def _wide(x: np.ndarray) -> np.ndarray:
    """FP64 numbers rounded to the 24 bits of FP32, without the ends of its range."""
    mantissa, exponent = np.frexp(x)
    return np.ldexp(mantissa.astype(np.float32).astype(np.float64), exponent)


def leading(x: np.ndarray) -> np.ndarray:
    """The leading eight bits of FP32 numbers: what moves of a sum where sums are compensated."""
    return (np.ascontiguousarray(x).view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)


def given_back(rest: np.ndarray, total: np.ndarray, cut: float) -> np.ndarray:
    """What stayed in the accumulator, and what truncation took on average; of sums with `SPARE_BITS`, which have lost none, nothing.

    Args:
        rest, total: FP32.
        cut: relative to `total`.
    """
    whole = np.ascontiguousarray(total + rest)
    exact = (whole - total == rest) & ((whole.view(np.uint32) & np.uint32((1 << SPARE_BITS) - 1)) == 0)
    return np.where(exact, rest, fma(total, np.float32(cut), rest))


def _raw(words: Words, fragment_k: int) -> list[np.ndarray]:
    """Each word's plane [rows, k] as stored, [k, rows, 1], padded with zeros to whole instructions."""
    return [_stored(plane, word.type, fragment_k) for plane, word in zip(words.planes, words.words)]


def _stored(plane: np.ndarray, word: str, fragment_k: int) -> np.ndarray:
    values = np.pad(plane, ((0, 0), (0, -plane.shape[1] % fragment_k))).T[..., None]
    with np.errstate(over="ignore", invalid="ignore"):
        if word in INTEGERS:
            return np.ascontiguousarray(values.astype(RAW[word]))
        if word_bytes(word) == 1:
            return np.ascontiguousarray(to_float8(values, word))
        if word == "f16":
            return np.ascontiguousarray(values.astype(np.float16).view(np.uint16))
        raw = np.ascontiguousarray(values.astype(np.float32)).view(np.uint32)
    return (raw >> np.uint32(16)).astype(np.uint16) if word == "bf16" else raw
