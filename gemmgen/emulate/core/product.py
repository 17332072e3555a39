"""What a scheme computes on a matrix unit, bit for bit, without a kernel."""

from __future__ import annotations

import numpy as np

from gemmgen.catalog.conversion import RAW
from gemmgen.catalog.scheme import Scheme
from gemmgen.catalog.unit import MatrixUnit
from gemmgen.emulate.core import units
from gemmgen.split import Words, joined, split


def product(scheme: Scheme, unit: MatrixUnit, a: np.ndarray, b: np.ndarray, *, promote: int = 0, fragment_k: int = 16) -> np.ndarray:
    """A [M, K] B [K, N] in FP32, as a kernel without slices of k computes it.

    Args:
        a, b: FP32.
        promote: k between moves of the accumulators that the scheme promotes into FP32 registers; 0 never.
        fragment_k: k of one matrix instruction.

    Raises:
        EmulationError: the unit has no such words.
    """
    of_a, of_b = split(a, scheme), split(np.ascontiguousarray(b.T), scheme)
    if scheme.residues:  # sums of integers, which no order changes
        return joined(of_a, of_b, scheme)
    left, right = _raw(of_a, scheme, fragment_k), _raw(of_b, scheme, fragment_k)
    zero = np.zeros((a.shape[0], b.shape[1], 1), np.int32 if scheme.fixed else np.float32)
    inside = {accumulator.name: zero for accumulator in scheme.accumulators}
    outside = {accumulator.name: zero for accumulator in scheme.accumulators if promote and accumulator.promoted}
    for k in range(0, left.shape[1], fragment_k):
        step = slice(k, k + fragment_k)
        for each in scheme.products:
            inside[each.into] = units.mma_columns(unit, scheme.word, left[each.a, step], right[each.b, step], inside[each.into])
        if promote and (k + fragment_k) % promote == 0:
            for name in outside:
                outside[name], inside[name] = outside[name] + inside[name], zero
    for name, total in outside.items():
        inside[name] = total + inside[name]
    result = scheme.recombination.combine(
        {name: total.astype(np.float32).astype(np.float64) for name, total in inside.items()},  # which rounds INT32
        lambda so_far, factor, own: (so_far * factor + own).astype(np.float32).astype(np.float64),
    )
    return np.ldexp(result[:, :, 0], -(of_a.exponents[:, None] + of_b.exponents)).astype(np.float32)


def _raw(words: Words, scheme: Scheme, fragment_k: int) -> np.ndarray:
    """Words [words, rows, k] as stored, [words, k, rows, 1], padded with zeros to whole instructions."""
    values = np.pad(words.planes, ((0, 0), (0, 0), (0, -words.planes.shape[2] % fragment_k))).transpose(0, 2, 1)[..., None]
    with np.errstate(over="ignore", invalid="ignore"):
        if scheme.fixed:
            return np.ascontiguousarray(values.astype(RAW[scheme.word]))
        if scheme.word == "f16":
            return np.ascontiguousarray(values.astype(np.float16).view(np.uint16))
        raw = np.ascontiguousarray(values.astype(np.float32)).view(np.uint32)
    return (raw >> np.uint32(16)).astype(np.uint16) if scheme.word == "bf16" else raw
