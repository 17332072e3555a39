"""What a made-up GPU holds and how fast it is: it takes and refuses launches, and the kernels of a bring-up tell the time that its planted rates make.

Occupancy is worked out here as NVIDIA's calculator words it, not by the model's equations.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from gemmgen.catalog.fragment import Fragment, find
from gemmgen.workshop.bringup.probe import chain_forms


@dataclass
class FakeLimits:
    """As rows of specs/gpus name them, and what these do not say.

    Attributes:
        compiler: registers that the compiler gives a thread at most.
        cluster: blocks of a cluster.
        without_opt_in: shared bytes of a launch that did not ask.
    """

    warp_size: int = 32
    threads_per_block: int = 1024
    threads_per_sm: int = 2048
    blocks_per_sm: int = 32
    registers_per_sm: int = 65536
    registers_per_thread: int = 255
    register_allocation_unit: int = 256
    shared_bytes_per_sm: int = 233472
    shared_bytes_per_block: int = 232448
    shared_bytes_reserved_per_block: int = 1024
    shared_allocation_unit: int = 128
    compiler: int = 255
    cluster: int = 16
    without_opt_in: int = 49152

    def resident(self, threads: int, registers: int, shared: int) -> int:
        warps = -(-threads // self.warp_size)
        each = -(-registers * self.warp_size // self.register_allocation_unit) * self.register_allocation_unit
        most = -(-self.registers_per_thread * self.warp_size // self.register_allocation_unit) * self.register_allocation_unit
        held = -(-(shared + self.shared_bytes_reserved_per_block) // self.shared_allocation_unit) * self.shared_allocation_unit
        if threads > self.threads_per_block or shared > self.shared_bytes_per_block or each > most:
            return 0
        by_registers = 4 * (self.registers_per_sm // 4 // each) // warps
        by_shared = self.shared_bytes_per_sm // held if held else 1 << 20
        return min(self.blocks_per_sm, self.threads_per_sm // self.warp_size // warps, by_registers, by_shared)


@dataclass
class FakeRates:
    """What its kernels reach.

    Attributes:
        tensor: multiply-adds of an SM in a clock, by fragment, and `*` of all others.
        mhz: the clock of a launch, by (kernel, launches of it before).
        banks, bank_bytes: of shared memory.
    """

    sms: int = 77
    fma: float = 126.0
    tensor: dict[str, float] = field(default_factory=lambda: {"*": 1003.0})
    latency: float = 18.0
    shared: float = 127.5
    shared_latency: float = 23.0
    banks: int = 32
    bank_bytes: int = 4
    l2_mib: float = 33.5
    l2_near_mib: float = 20.0
    l2_latency: float = 250.0
    l2_bytes: float = 41.0
    dram_latency: float = 800.0
    dram_gb_per_s: float = 1900.0
    gap_ns: int = 900
    dependent_gap_ns: int = 400
    mhz: Callable[[str, int], float] = lambda symbol, before: 1700.0


class FakeKernels:
    """The kernels of one source."""

    kind, clusters_at_once = "cuda", None

    def __init__(self, limits: FakeLimits, rates: FakeRates, source: Any):
        self.limits, self.rates, self.source, self.name = limits, rates, source, "made up"
        self._now, self._count, self._chased = 1000, {}, None  # ticks, launches of each kernel, where the last chase began
        self._wraps = 1 << (20 if source.arch.startswith("gfx11") else 62)
        self._tick_ns = 10 if source.arch.startswith("gfx") else 1

    @cached_property
    def _fragment(self) -> Fragment:
        return find(self.source.name.removeprefix("bringup_"), "a test")

    # -------------------------------------------------------- limits

    def registers(self, symbol: str) -> int:
        return min(int(symbol[5:]), self.limits.compiler) if symbol.startswith("hold_") else 8

    def takes(self, symbol: str, blocks: int, threads: int, shared_bytes: int = 0, cluster: int = 1, opt_in: bool = True) -> bool:
        limits, registers = self.limits, self.registers(symbol)
        allowed = shared_bytes <= (limits.shared_bytes_per_block if opt_in else limits.without_opt_in)
        return registers <= limits.registers_per_thread and allowed and cluster <= limits.cluster and self.resident(symbol, threads, shared_bytes) > 0

    def resident(self, symbol: str, threads: int, shared_bytes: int = 0) -> int:
        return self.limits.resident(threads, self.registers(symbol), shared_bytes)

    # -------------------------------------------------------- memory

    def zeros(self, nbytes: int, name: str) -> np.ndarray:
        return np.zeros(nbytes, np.uint8)

    empty = zeros

    def upload(self, array: np.ndarray, name: str, misalign: int = 0) -> np.ndarray:
        assert array.nbytes == 4096
        return np.frombuffer(array.tobytes(), np.uint8).copy()

    def download(self, buffer: np.ndarray, dtype: Any, count: int) -> np.ndarray:
        return buffer.view(dtype)[:count].copy()

    def release(self) -> None:
        pass

    def seconds(self) -> float:
        return 0.0

    def copy_seconds(self, nbytes: int, to_device: bool) -> float:
        return nbytes / (25e9 if to_device else 24e9)

    # -------------------------------------------------------- launches

    def series(self, symbol: str, blocks: int, threads: int, args: Sequence[Any], overlaps: bool = False) -> float:
        for one in args:
            (_, out), _, *numbers = one
            _, duration, place, _ = (value for _, value in numbers)
            out.view(np.uint64)[4 * place : 4 * place + 4] = duration, self._now, self._now + duration, 0
            self._now += duration + (self.rates.dependent_gap_ns if overlaps else self.rates.gap_ns) // self._tick_ns
        return 12e-6 * len(args)

    def launch(self, symbol: str, blocks: int, threads: int, shared_bytes: int, args: Sequence[Any], overlaps: bool = False) -> None:
        (_, out), _, *numbers = args
        steps, x, y, keep = (value for _, value in numbers)
        if symbol == "fill_chain":
            self._chased = None
        if symbol == "stamp":
            order = np.arange(blocks)
            wave = order // self.rates.sms // self.resident(symbol, threads, shared_bytes)
            told = np.stack([order, self._now + wave * x, self._now + wave * x + x, order % self.rates.sms if self._tick_ns == 1 else 0 * order], 1)
            out.view(np.uint64)[: 4 * blocks] = told.reshape(-1)
        if symbol in ("fill_chain", "stamp"):
            return
        mhz = self.rates.mhz(symbol, self._count.get(symbol, 0))
        self._count[symbol] = self._count.get(symbol, 0) + 1
        cycles = max(1.0, self._cycles(symbol, blocks, threads, steps, x, y, keep, mhz) * max(1, blocks // (4 * self.rates.sms)))
        told = out.view(np.uint64)[: 4 * blocks].reshape(blocks, 4)
        told[:] = np.array([round(cycles) % self._wraps, self._now, self._now + round(1e3 * cycles / mhz / self._tick_ns), 0], np.uint64)
        told[:, 3] = np.arange(blocks) % self.rates.sms if self._tick_ns == 1 else 0  # AMD's do not tell
        self._now = int(told[0, 2]) + 1000

    def _cycles(self, symbol: str, blocks: int, threads: int, steps: int, x: int, y: int, keep: int, mhz: float) -> float:
        rates = self.rates
        if symbol == "fma_8":
            return threads * 128 * steps / rates.fma
        if symbol in ("fma_1", "shared_chase"):
            return steps * (128 * 4 if symbol == "fma_1" else rates.shared_latency)
        if symbol.startswith("chains_"):
            fragment = self._fragment
            per_step = 4 if fragment.from_shared else 32
            if symbol == "chains_1":
                return per_step * steps * rates.latency
            assert (int(symbol[7:]), threads) == chain_forms(fragment)[1]
            m, n, k = fragment.shape
            return threads // fragment.threads * per_step * m * n * k * steps / rates.tensor.get(fragment.name, rates.tensor["*"])
        if symbol == "shared_read":
            return 1024 * 8 * 16 * steps / rates.shared
        if symbol == "shared_stride":
            lanes = self.limits.warp_size
            return threads // lanes * 8 * steps * self._conflicts([(lane * x + (lane & 1) * y) % 8192 for lane in range(lanes)])
        if symbol == "chase":
            again, self._chased = self._chased == keep and steps * threads * 128 < rates.l2_mib * 2**20, keep
            far = x * 128 > rates.l2_mib * 2**20 and not again
            return steps * (rates.dram_latency if far else rates.l2_latency * (2 if x * 128 > rates.l2_near_mib * 2**20 else 1))
        if symbol in ("read_memory", "write_memory", "copy_memory"):
            nbytes = 16 * x * steps * (2 if symbol == "copy_memory" else 1)
            near = 16 * x < rates.l2_mib * 2**20
            return nbytes / rates.sms / rates.l2_bytes if near else nbytes / rates.dram_gb_per_s * 1e-3 * mhz
        assert symbol in ("async_copy", "bulk_copy") and x & x - 1 == 0 and y == blocks
        return steps * {"async_copy": 16384, "bulk_copy": 8192}[symbol] / rates.l2_bytes

    def _conflicts(self, words: list[int]) -> int:
        """Reads that one of a warp becomes: of each bank one of its words at a time."""
        pieces = {4 * word // self.rates.bank_bytes for word in words}
        return int(np.bincount([piece % self.rates.banks for piece in pieces]).max())
