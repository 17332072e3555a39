"""Kernels on fragments' headers, run on an emulator: which target and unit a row is run on, and a text's launches."""

from __future__ import annotations

import numpy as np

from assembled import gcn_of, ptx_of
from gemmgen.catalog.fragment import Fragment
from gemmgen.catalog.gpu import GPUS
from gemmgen.catalog.unit import UNITS, MatrixUnit
from gemmgen.emulate import Emulator
from gemmgen.emulate.amdgpu import TARGETS, AmdEmulator

UNIT = {75: "turing", 80: "ampere", 89: "ada"}


def target_of(row: Fragment) -> str:
    """The last target of a row that an emulator executes."""
    return [arch for arch in row.archs if arch in TARGETS][-1] if row.archs else f"sm_{row.min_arch}"


def unit_of(row: Fragment) -> MatrixUnit:
    """The target's, or, where nobody knows how that sums these words, another."""
    if not row.archs:
        return UNITS.get(UNIT[row.min_arch])
    found = {gpu.arch: gpu.unit for gpu in GPUS.rows()}.get(target_of(row))
    return found if found and row.word in found.words else UNITS.get("ampere")


class Launches:
    """A text's kernels on the emulator, to be entered."""

    def __init__(self, text: str, row: Fragment) -> None:
        cuda = not row.archs
        assembly = (ptx_of if cuda else gcn_of)(text, target_of(row), "use.cu" if cuda else "use.hip")
        self.emulator = (Emulator if cuda else AmdEmulator)(assembly, unit_of(row), source=text, processes=1)

    def __enter__(self) -> Launches:
        self.emulator.__enter__()
        return self

    def __exit__(self, *what) -> None:
        self.emulator.__exit__(*what)

    def __call__(
        self, symbol: str, shape: tuple[int, ...], blocks: int, threads: int, before: tuple[np.ndarray, ...], after: tuple[int, ...] = (),
        dtype: type = np.float32,
    ) -> np.ndarray:
        """Launch with arrays `before`, the result of `shape`, and numbers `after`."""
        arrays = [self.emulator.upload(array, name=f"input_{i}") for i, array in enumerate(before)]
        out = self.emulator.alloc(4 * int(np.prod(shape)), name="out")
        self.emulator.launch(symbol, (blocks, 1, 1), (threads, 1, 1), 0, [*arrays, out, *after])
        return self.emulator.read(out, dtype, shape)
