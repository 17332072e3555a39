"""Rates of a device by generated microbenchmarks, each repeated, with its spread; refused where the clock changed between repeats.

`gpu NAME` is a value of a row of specs/gpus: the peak, which is SMs, clock and the least power of two that is not below what was reached. `rate NAME` is
what kernels reach, by medians; `RAW` has their units, and each instruction has its `fma_per_clock` and `latency_cycles`.
"""

from __future__ import annotations

import functools
import math
import operator
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np

from gemmgen.catalog.conversion import to_float8
from gemmgen.catalog.fragment import Fragment, find
from gemmgen.catalog.gpu import arch_number
from gemmgen.catalog.number import INTEGERS
from gemmgen.catalog.vendor import vendor_of
from gemmgen.errors import GemmgenError
from gemmgen.run.sensors import throttle_names
from gemmgen.workshop.bringup.probe import Kernels, chain_forms, multiply_source, plain_source, varies
from gemmgen.workshop.bringup.session import Session, Value
from gemmgen.workshop.bringup.stepped import find_banks, find_capacities, power_of_two
from gemmgen.workshop.bringup.timed_launches import CLOCK_CHANGE, REPEATS, TICKS, TRIES, Bench, Measured

NO_CLOCK = "an emulator has no clock"
WARMTH, SUSTAINED = 0.2, 0.6
"""Seconds of work before the first measurement, and of the load under which clock and power are looked at."""
COPY_ENGINE = 90
"""The `arch_number` from which on those that copy past the registers also have a copy engine, and launches that start before the one before has ended."""
COUNTS_20_BITS = "gfx11"
"""Targets whose counter of cycles wraps around within a millisecond: cycles are the timer's there, at the clock of a short launch."""
MOST_L2_MIB = 384
"""The largest working set that is tried, beyond which caches of addresses end, too."""
LINE = 128
"""Bytes of a line of the caches, and between two reads that follow one another."""
_MOST_MEMORY = 1 << 31
MIB = 2**20


def measure(session: Session) -> None:
    """The rates of a row, and what kernels reach of them."""
    machine = session.machine
    if machine.kind == "emulator":
        for name in _names(session):
            if session.value(name) is None:
                session.put(Value(name, None, NO_CLOCK, "not found"))
        session.sections.append(("Rates", f"None: {NO_CLOCK}."))
        return
    session.progress("rates")
    Rates(session).measure()


def _names(session: Session) -> list[str]:
    """Of all that is sought of a device with a clock."""
    of = [f"rate {fragment.name} {what}" for fragment in session.fragments for what in ("fma_per_clock", "latency_cycles")]
    return [*(f"gpu {name}" for name in OF_A_ROW), *of, *(f"rate {name}" for name in RAW)]


OF_A_ROW = (
    "sms", "boost_mhz", "tensor_boost_mhz", "f32_fma_per_clock", "tensor_fma_per_clock", "f16_tflops", "f32_tflops", "shared_bytes_per_clock", "shared_banks",
    "dram_gb_per_s", "dram_gib", "l2_mib",
)
RAW = {
    "f32 fma_per_clock": "FP32 multiply-adds of an SM in a clock", "f32 latency_cycles": "from one to the next that needs it, cycles",
    "shared bytes_per_clock": "shared memory of an SM, bytes in a clock", "shared latency_cycles": "a read that needs the one before, cycles",
    "shared bank_bytes": "width of a bank, bytes",
    "l2 latency_cycles": "a read that needs the one before, cycles", "l2 bytes_per_clock": "bytes an SM gets in a clock while all read",
    "l2 mib": "2^20 bytes that are read again sooner than device memory is",
    "dram latency_ns": "a read that needs the one before, ns", "dram read_gb_per_s": "10^9 bytes a second", "dram write_gb_per_s": "10^9 bytes a second",
    "dram copy_gb_per_s": "10^9 bytes a second, read and written",
    "async_copy bytes_per_clock": "from L2 to shared memory past the registers, bytes an SM gets in a clock while all copy",
    "bulk_copy bytes_per_clock": "the same by the copy engine",
    "host to_device_gb_per_s": "from page-locked memory, 10^9 bytes a second", "host from_device_gb_per_s": "to page-locked memory",
    "launch gap_us": "from a kernel's end to the next one's first instruction", "launch dependent_gap_us": "the same where the next may start before that end",
    "launch round_trip_us": "a launch and the wait for its end, seen from the host",
    "clock sustained_mhz": "under FP16 products of random words, after half a second", "clock sustained_tflops": "of those products",
    "clock power_w": "of the board during them", "clock power_limit_w": "of the board",
}
"""What is measured beside instructions, and what it is."""


class Rates:
    """One measurement of everything.

    Attributes:
        sms: that a launch's blocks run on.
    """

    def __init__(self, session: Session):
        self.session, self.machine = session, session.machine
        self.vendor = vendor_of(self.machine.arch)
        self.number = arch_number(self.machine.arch)
        self.warp = self.vendor.warp_size(self.number)
        first = self.vendor.first_async
        engine = first is not None and self.number >= COPY_ENGINE
        self.has = {"async_copy": first is not None and self.number >= first, "bulk_copy": engine, "dependent": engine}
        self.lines: list[str] = []
        source = plain_source(
            "rates.j2", self.machine.arch, "bringup_rates", warp=self.warp, async_copies=self.has["async_copy"], bulk_copies=self.has["bulk_copy"],
            stamps=["stamp", "stamp_dependent"][: 1 + self.has["dependent"]])
        wide = [_widest(fragment) for fragment in session.fragments if fragment.from_shared]
        self.instructions = {one.name: one for one in (*session.fragments, *wide)}
        with ThreadPoolExecutor() as pool:  # compilers
            built = {name: pool.submit(self._opened, multiply_source(one, self.machine.arch)) for name, one in self.instructions.items()}
            self.kernels = self.machine.kernels(source)
            self.built = {name: one.result() for name, one in built.items()}
        memory = session.value("gpu device_memory_bytes")
        self.most = min(_MOST_MEMORY, int(memory.value) // 4 // MIB * MIB) if memory else _MOST_MEMORY
        self.memory = self.kernels.zeros(self.most, "memory")
        self.bench = Bench(self.machine, self.kernels, self.memory)
        self.mhz: float | None = None
        if self.machine.arch.startswith(COUNTS_20_BITS):
            self.mhz = median(self.bench.run("fma_8", 1, 1024, 64).mhz for _ in range(REPEATS))
            self.bench = Bench(self.machine, self.kernels, self.memory, self.mhz)
        self.sms = self.processors = 1

    def _opened(self, source: Any) -> Kernels | GemmgenError:
        try:
            return self.machine.kernels(source)
        except GemmgenError as error:
            return error

    def measure(self) -> None:
        self._processors()
        self._residents()
        self._arithmetic()
        self._matrix()
        self._shared()
        self._caches()
        self._copies()
        self._launches()
        self._host()
        self._sustained()
        table = ["| rate | median | spread | clock, MHz | of |", "| --- | --- | --- | --- | --- |", *self.lines]
        self.session.sections.append(("Rates", "\n".join(table)))
        for kernels in (self.kernels, *self.built.values()):
            if not isinstance(kernels, GemmgenError):
                kernels.release()

    # ------------------------------------------------------------ what is put down

    def _raw(self, name: str, found: Measured, digits: int = 4, how: str = "") -> float | None:
        """Put a raw value down, with its repeats; None where the clock changed during it."""
        what = RAW.get(name, "")
        if found.throttled:
            reason = f"the clock changed between repeats, {min(found.mhz):.0f} to {max(found.mhz):.0f} MHz, {TRIES} times over: the chip throttled"
            self.session.put(Value(f"rate {name}", None, reason, "not found"))
            self.lines.append(f"| {name} | | | {min(found.mhz):.0f} to {max(found.mhz):.0f} | refused: the clock changed |")
            return None
        return self._plain(name, found.value, found.spread, found.clock, how or what, found.proof, digits)

    def _plain(self, name: str, value: float, spread: float, clock: float, how: str, proof: str, digits: int = 4) -> float:
        value = float(f"{value:.{digits}g}")
        self.session.put(Value(f"rate {name}", value, how, "measured", proof, tolerance=max(0.05, 2 * spread)))
        self.lines.append(f"| {name} | {value:g} | {100 * spread:.2g} % | {f'{clock:.0f}' if clock else ''} | {how} |")
        return value

    def _missing(self, name: str, reason: str) -> None:
        self.session.put(Value(name, None, reason, "not found"))

    def _peak(self, name: str, raw: float | None, what: str) -> int | None:
        """A power of two, of a raw rate: what a row means is the peak, and hardware does powers of two."""
        if raw is None:
            self._missing(f"gpu {name}", f"the chip throttled while {what} was measured")
            return None
        peak = power_of_two(raw)
        self.session.found(f"gpu {name}", peak, f"{raw:g} reached by {what}, {100 * raw / peak:.0f} % of the least power of two that is not below")
        return peak

    # ------------------------------------------------------------ arithmetic

    def _processors(self) -> None:
        told = self.session.value("gpu sms")
        blocks = 1024  # several of each SM of any GPU
        steps = self.bench.scaled("fma_8", blocks, 1024)
        end = time.perf_counter() + WARMTH
        run = self.bench.run("fma_8", blocks, 1024, steps)
        while time.perf_counter() < end:  # out of idle clocks
            run = self.bench.run("fma_8", blocks, 1024, steps)
        self.processors = run.processors
        if run.processors > 1:
            self.session.found("gpu sms", run.processors, f"SMs that {blocks} blocks of one launch ran on")
        elif told is None:
            self._missing("gpu sms", "kernels of this target do not tell on which they run, nor does the driver")
        self.sms = run.processors if run.processors > 1 else int(told.value) if told else 1

    def _residents(self) -> None:
        """Blocks that really share an SM, beside what occupancy queries tell; only where kernels know on which SM they run."""
        per_sm = self.session.value("gpu shared_bytes_per_sm")
        if self.processors < 2:
            return
        shared = per_sm.value // 4 - 2048 if per_sm and per_sm.value else 0
        counted, told = [], []
        for threads, nbytes in ((self.warp, 0), (512, 0), (self.warp, shared)):
            told.append(self.kernels.resident("stamp", threads, nbytes))
            counted.append(self._at_once(threads, nbytes, self.sms * (told[-1] + 1)))
        how = f"blocks at once on one SM, of {self.warp} threads, of 512, of {shared} bytes, counted by when and where they ran; queries tell {told}"
        self.session.put(Value("rate resident_blocks", counted, how))
        self.lines.append(f"| resident_blocks | {counted} | | | {how} |")

    def _at_once(self, threads: int, nbytes: int, blocks: int) -> int:
        """The most blocks that are at work on one SM at a time, of more than fit."""
        out = self.kernels.zeros(32 * blocks, "out")
        duration = round(2e-4 * TICKS[self.vendor.platform])
        self.kernels.launch("stamp", blocks, threads, nbytes, [("pointer", out), ("pointer", self.memory), *(("int", one) for one in (0, duration, 0, 0))])
        _, first, last, where = self.kernels.download(out, np.uint64, 4 * blocks).reshape(blocks, 4).T
        return max(int(((first <= at) & (at < last) & (where == sm)).sum()) for at, sm in zip(first, where))

    def _arithmetic(self) -> None:
        bench = self.bench
        steps = bench.scaled("fma_8", self.sms, 1024)
        reached = bench.repeated(lambda run: 1024 * 128 * steps / run.typical, "fma_8", self.sms, 1024, steps)
        alone = bench.scaled("fma_1", 1, self.warp)
        latency = bench.repeated(lambda run: run.typical / (128 * alone), "fma_1", 1, self.warp, alone)
        peak = self._peak("f32_fma_per_clock", self._raw("f32 fma_per_clock", reached), "chains of FP32 multiply-adds")
        self._raw("f32 latency_cycles", latency)
        clock = self._clock("boost_mhz", reached, "FP32 multiply-adds on all SMs")
        if peak and clock:
            self._tflops("f32_tflops", clock, peak)

    def _clock(self, name: str, found: Measured, what: str) -> int | None:
        if found.throttled:
            self._missing(f"gpu {name}", f"the clock changed under {what}, {min(found.mhz):.0f} to {max(found.mhz):.0f} MHz")
            return None
        told = self.session.value("gpu boost_mhz")
        near = told is not None and told.value and abs(found.clock / told.value - 1) < 0.01
        value = int(round(told.value)) if near else int(round(found.clock))
        how = f"{found.clock:.1f} MHz under {what}, by the SM's clock beside the timer of all"
        how += "; within 1 % of the boost clock, and taken as that" if near else ""
        self.session.found(f"gpu {name}", value, how, found.proof, tolerance=CLOCK_CHANGE)
        return value

    def _tflops(self, name: str, mhz: float, fma: int) -> None:
        value = float(f"{2e-6 * self.sms * mhz * fma:.5g}")
        self.session.put(Value(f"gpu {name}", value, f"2 x {self.sms} SMs x {mhz:g} MHz x {fma} multiply-adds", tolerance=CLOCK_CHANGE))

    # ------------------------------------------------------------ matrix instructions

    def _matrix(self) -> None:
        best: dict[str, tuple[float, str]] = {}
        clocks: dict[str, Measured] = {}
        for name, fragment in self.instructions.items():
            self.session.progress(f"rates of {name}")
            kernels = self.built[name]
            if isinstance(kernels, GemmgenError):
                self._missing(f"rate {name} fma_per_clock", f"{kernels.where}: {kernels.problem}")
                continue
            bench = Bench(self.machine, kernels, kernels.upload(_words(fragment), "words"), self.mhz)
            m, n, k = fragment.shape
            form = Form.of(fragment)
            steps = bench.scaled(form.wide, self.sms, form.threads)
            fma = form.issuers * form.per_step * m * n * k * steps
            reached = bench.repeated(lambda run: fma / run.typical, form.wide, self.sms, form.threads, steps)
            alone = bench.scaled(form.alone, 1, fragment.threads)
            latency = bench.repeated(lambda run: run.typical / (form.per_step * alone), form.alone, 1, fragment.threads, alone)
            raw = self._raw(f"{name} fma_per_clock", reached, how=f"multiply-adds of an SM in a clock, {form.text}")
            self._raw(f"{name} latency_cycles", latency, how="from one to the next that needs its sums, cycles")
            clocks[name] = max(reached, latency, key=lambda one: one.clock)
            if raw and raw > best.get(fragment.word, (0.0, ""))[0]:
                best[fragment.word] = raw, name
        self._tensor(best, clocks)

    def _tensor(self, best: dict[str, tuple[float, str]], clocks: dict[str, Measured]) -> None:
        words = {one.word for one in self.instructions.values()}
        for name, sought in (("tensor_fma_per_clock", bool(words - best.keys())), ("tensor_boost_mhz", "f16" in words), ("f16_tflops", "f16" in words)):
            if sought:  # until it is found
                self._missing(f"gpu {name}", "of some words no instruction could be measured: the compiler refused it, or the chip throttled")
        if not best:
            return
        peaks = {word: power_of_two(raw) for word, (raw, _) in best.items()}
        how = "; ".join(f"{word}: {raw:g} reached by {name}, {100 * raw / peaks[word]:.0f} % of {peaks[word]}" for word, (raw, name) in best.items())
        self.session.put(Value("gpu tensor_fma_per_clock", peaks, f"least powers of two that are not below what was reached; {how}"))
        if "f16" not in best:
            return
        name = max((name for name in clocks if self.instructions[name].word == "f16"), key=lambda name: clocks[name].clock)
        clock = self._clock("tensor_boost_mhz", clocks[name], f"bursts of {name}, the fastest clock of all of FP16 words")
        if clock:
            self._tflops("f16_tflops", clock, peaks["f16"])

    # ------------------------------------------------------------ memories

    def _shared(self) -> None:
        bench = self.bench
        steps = bench.scaled("shared_read", self.sms, 1024, 1024, 128)
        reached = bench.repeated(lambda run: 1024 * 8 * 16 * steps / run.typical, "shared_read", self.sms, 1024, steps, 1024, 128)
        self._peak("shared_bytes_per_clock", self._raw("shared bytes_per_clock", reached), "reads of 16 bytes a thread")
        alone = bench.scaled("shared_chase", 1, self.warp)
        self._raw("shared latency_cycles", bench.repeated(lambda run: run.typical / alone, "shared_chase", 1, self.warp, alone))
        threads, steps = 8 * self.warp, 256

        def cost(stride: int, odd: int = 0) -> float:
            """Cycles of a warp's read of words so far apart."""
            runs = [bench.run("shared_stride", 1, threads, steps, stride, odd) for _ in range(3)]
            return median(run.typical for run in runs) / (8 * 8 * steps)

        banks = find_banks(cost)
        if banks is None:
            self._missing("gpu shared_banks", "reads of words 1 to 128 words apart do not tell: their cost does not end growing")
            self._missing("rate shared bank_bytes", "likewise")
            return
        told = ", ".join(f"{stride}: {cycles:.3g}" for stride, cycles in banks.costs.items())
        how = f"cycles of a warp's read by the words between lanes, {told}"
        self.session.found("gpu shared_banks", banks.count, how)
        self.session.put(Value("rate shared bank_bytes", banks.width, how))
        self.lines.append(f"| shared banks | {banks.count} of {banks.width} bytes | | | {how} |")

    def _chain(self, lines: int) -> tuple[int, int]:
        """Fill memory with a way through so many lines: (lines, lines from one to the next)."""
        lines = min(lines, self.most // LINE)
        jump = int(lines * 0.618) | 1
        while math.gcd(jump, lines) > 1:
            jump += 2
        blocks = 4 * self.sms
        self.kernels.launch("fill_chain", blocks, 256, 0, [
            ("pointer", self.memory), ("pointer", self.memory), *(("int", one) for one in (256 * blocks, lines, jump, 0))])
        return lines, jump

    def _latency(self, nbytes: int, threads: int = 256) -> Measured:
        """Cycles of a read that needs the one before, of so many bytes by lines, all of which were read before."""
        lines, jump = self._chain(nbytes // LINE)
        steps = -(-lines // threads)
        return self.bench.repeated(lambda run: run.typical / steps, "chase", 1, threads, steps, lines, jump)

    def _far_latency(self, steps: int = 2048) -> Measured:
        """The same of device memory, of lines that were not read since they were written, in nanoseconds."""
        lines, jump = self._chain(self.most // LINE)
        return self.bench.repeated(lambda run: 1e3 * run.typical / run.mhz / steps, "chase", 1, 1, steps, lines, jump, ahead=True)

    def _caches(self) -> None:
        self.session.progress("rates of memories")
        self._raw("l2 latency_cycles", self._latency(MIB // 2, threads=1))
        self._raw("dram latency_ns", self._far_latency(), how=f"{RAW['dram latency_ns']}, of {self.most // MIB} MiB")
        size = self._l2_size()
        told = self.session.value("gpu l2_mib")
        if told is None and size is not None:
            how = "the working set from which on latency is device memory's, to a whole MiB"
            self.session.put(Value("gpu l2_mib", round(size), how, tolerance=0.05))
        elif told is None:
            self._missing("gpu l2_mib", "no working set from which on latency grows, nor does the driver tell")
        self._bandwidth(float((told.value if told else None) or size or 4))

    def _l2_size(self) -> float | None:
        curve: dict[float, float] = {}

        def latency(mib: float) -> float:
            if mib not in curve:
                curve[mib] = self._latency(int(mib * MIB)).value
            return curve[mib]

        steps = find_capacities(latency, min(MOST_L2_MIB, self.most / MIB))
        shown = ", ".join(f"{mib:.3g}: {cycles:.0f}" for mib, cycles in sorted(curve.items()))
        if not steps:
            self._missing("rate l2 mib", f"no step of latency, cycles by MiB {shown}")
            return None
        nearer = f", after steps at {', '.join(f'{one:.3g}' for one in steps[:-1])}" if steps[1:] else ""
        self._plain("l2 mib", steps[-1], 0.0, 0.0, f"{RAW['l2 mib']}{nearer}", f"{len(curve)} working sets, cycles by MiB {shown}", 3)
        return steps[-1]

    def _bandwidth(self, l2_mib: float) -> None:
        self._raw("l2 bytes_per_clock", max((self._l2_bytes(l2_mib, blocks) for blocks in (self.sms, 2 * self.sms)), key=_best))
        reached: dict[str, float] = {}
        for name, symbol, share in (("read", "read_memory", 1), ("write", "write_memory", 1), ("copy", "copy_memory", 2)):
            found = max((self._dram(symbol, share, blocks) for blocks in (self.sms, 2 * self.sms, 4 * self.sms)), key=_best)
            if (value := self._raw(f"dram {name}_gb_per_s", found)) is not None:
                reached[name] = value
        told = self.session.value("gpu dram_gb_per_s")
        if told is None and reached:
            best = max(reached, key=reached.get)
            how = f"the most that a kernel reaches, by {best}: the peak is more, and the driver does not tell it"
            self.session.put(Value("gpu dram_gb_per_s", reached[best], how, tolerance=0.05))
        elif told is None:
            self._missing("gpu dram_gb_per_s", "the chip throttled while memory was read, and the driver does not tell it")
        memory = self.session.value("gpu device_memory_bytes")
        if memory:
            self.session.put(Value("gpu dram_gib", -(-int(memory.value) // 2**30), "what the driver tells, to the next whole 2^30 bytes", "told"))
        else:
            self._missing("gpu dram_gib", "the driver does not tell")

    def _l2_bytes(self, l2_mib: float, blocks: int) -> Measured:
        """Bytes an SM gets in a clock while all read about a quarter of L2 again and again."""
        turn = 8 * 512 * blocks  # of 16 bytes
        whole = max(1, int(l2_mib * MIB / 4) // (16 * turn)) * turn
        steps = self.bench.scaled("read_memory", blocks, 512, whole, 512 * blocks, first=4)
        return self.bench.repeated(
            lambda run: 16 * whole * steps / (run.span * run.mhz * 1e6) / self.sms, "read_memory", blocks, 512, steps, whole, 512 * blocks)

    def _dram(self, symbol: str, share: int, blocks: int) -> Measured:
        """10^9 bytes a second, of as much memory as there is to try."""
        turn = 8 * 512 * blocks
        count = self.most // 16 // share // turn * turn
        return self.bench.repeated(lambda run: 16e-9 * count * share / run.span, symbol, blocks, 512, 1, count, 512 * blocks)

    def _copies(self) -> None:
        whole = 1 << 19  # of 16 bytes: 8 MiB
        for name, threads, nbytes in (("async_copy", 1024, 16384), ("bulk_copy", 32, 8192)):
            if not self.has[name]:
                self.lines.append(f"| {name} bytes_per_clock | | | | {self.machine.arch} has none |")
                continue
            steps = self.bench.scaled(name, self.sms, threads, whole, self.sms)
            self._raw(f"{name} bytes_per_clock", self.bench.repeated(
                lambda run, steps=steps, nbytes=nbytes: nbytes * steps / run.typical, name, self.sms, threads, steps, whole, self.sms))

    # ------------------------------------------------------------ launches and the host

    def _launches(self, count: int = 64) -> None:
        self.session.progress("rates of launches")
        duration = round(50e-6 * TICKS[self.vendor.platform])
        for name, symbol in (("gap_us", "stamp"), ("dependent_gap_us", "stamp_dependent")):
            if symbol == "stamp_dependent" and not self.has["dependent"]:
                self.lines.append(f"| launch {name} | | | | {self.machine.arch} has none |")
                continue
            gaps = [self._gap(symbol, count, duration) for _ in range(REPEATS + 1)][1:]
            found = Measured(tuple(gaps), (1.0,))
            proof = f"{REPEATS} repeats of {count} launches, spread {100 * found.spread:.2g} %"
            self._plain(f"launch {name}", found.value, found.spread, 0.0, RAW[f"launch {name}"], proof, 3)
        arguments = [("pointer", self.memory), ("pointer", self.memory), *(("int", 0) for _ in range(4))]
        trips = [1e6 * self.kernels.series("stamp", 1, self.warp, [arguments]) for _ in range(50)]
        trips = sorted(trips[10:])
        spread = (trips[-4] - trips[4]) / median(trips)
        proof = f"{len(trips)} repeats, spread of the middle 80 % {100 * spread:.2g} %"
        self._plain("launch round_trip_us", median(trips), spread, 0.0, RAW["launch round_trip_us"], proof, 3)

    def _gap(self, symbol: str, count: int, duration: int) -> float:
        """Microseconds between launches, on average, while the queue is full."""
        memory = self.kernels.zeros(32 * count, "stamps")
        self.kernels.series(symbol, 1, self.warp, [
            [("pointer", memory), ("pointer", self.memory), *(("int", one) for one in (0, duration, at, 0))] for at in range(count)], symbol != "stamp")
        told = self.kernels.download(memory, np.uint64, 4 * count).reshape(count, 4).astype(np.int64)
        ticks = told[1:, 1] - told[:-1, 2]
        return 1e6 * float(ticks[count // 4 :].mean()) / TICKS[self.vendor.platform]

    def _host(self) -> None:
        for name, to_device in (("to_device_gb_per_s", True), ("from_device_gb_per_s", False)):
            nbytes = 128 * MIB
            times = [self.kernels.copy_seconds(nbytes, to_device) for _ in range(REPEATS)]
            if None in times:
                self.lines.append(f"| host {name} | | | | not measured with this driver |")
                continue
            found = Measured(tuple(1e-9 * nbytes / seconds for seconds in times), (1.0,))
            self._plain(f"host {name}", found.value, found.spread, 0.0, RAW[f"host {name}"], f"{REPEATS} repeats of 128 MiB, spread {100 * found.spread:.2g} %")

    def _sustained(self) -> None:
        """Clock, and power where it is told, after a while under the fastest instruction of FP16 words."""
        self.session.progress("clock under load")
        names = [name for name, one in self.instructions.items() if one.word == "f16" and not isinstance(self.built[name], GemmgenError)]
        rate = {name: one.value for name in names if (one := self.session.value(f"rate {name} fma_per_clock")) and one.value}
        if not rate:
            self.lines.append("| clock sustained_mhz | | | | no instruction of FP16 words was measured |")
            return
        name = max(rate, key=rate.get)
        fragment, kernels = self.instructions[name], self.built[name]
        bench, form = Bench(self.machine, kernels, kernels.upload(_words(fragment), "words"), self.mhz), Form.of(self.instructions[name])
        steps = bench.scaled(form.wide, self.sms, form.threads, seconds=5e-3)
        sensors, looks, runs = self.machine.sensors(), [], []
        end = time.perf_counter() + SUSTAINED
        while not runs or time.perf_counter() < end:
            batch = [bench.launch(form.wide, self.sms, form.threads, steps) for _ in range(4)]
            if sensors and (look := sensors.read()):  # while they run
                looks.append(look)
            runs += [bench.told(out, self.sms) for out in batch]
        late = runs[len(runs) * 2 // 3 :]
        m, n, k = fragment.shape
        work = 2e-12 * self.sms * form.issuers * form.per_step * m * n * k * steps
        clocks = Measured(tuple(run.mhz for run in late), (1.0,))
        speeds = Measured(tuple(work / run.span for run in late), (1.0,))
        proof = f"{len(late)} launches of 5 ms after {SUSTAINED * 2 / 3:.1f} s, from {runs[0].mhz:.0f} MHz at first"
        self._plain("clock sustained_mhz", clocks.value, clocks.spread, clocks.value, f"{RAW['clock sustained_mhz']}, by {name}", proof)
        self._plain("clock sustained_tflops", speeds.value, speeds.spread, clocks.value, f"{RAW['clock sustained_tflops']}, by {name}", proof)
        watts = [look.power_w for look in looks[len(looks) * 2 // 3 :]]
        if watts:
            slowed = throttle_names(functools.reduce(operator.or_, (look.throttles for look in looks[len(looks) * 2 // 3 :])))
            self._plain("clock power_w", median(watts), (max(watts) - min(watts)) / median(watts), clocks.value,
                        RAW["clock power_w"] + (f"; slowed by {slowed}" if slowed else ""), f"{len(watts)} looks")
        else:
            self.lines.append("| clock power_w | | | | no sensors |")
        limit = sensors and sensors.power_limit()
        if limit:
            self.session.put(Value("rate clock power_limit_w", limit, "the board's, by NVML", "told"))
            self.lines.append(f"| clock power_limit_w | {limit:g} | | | the board's, by NVML |")


@dataclass(frozen=True)
class Form:
    """How an instruction's throughput and latency are measured.

    Attributes:
        wide, alone: the kernels; (chains, threads) of each are `forms`.
        threads: of a block of the former.
        issuers: warps or warpgroups of it.
        per_step: instructions of each of them.
        text: the former in words.
    """

    wide: str
    alone: str
    threads: int
    issuers: int
    per_step: int
    text: str

    @classmethod
    def of(cls, fragment: Fragment) -> Form:
        (_, _), (chains, threads) = chain_forms(fragment)
        issuers = threads // fragment.threads
        text = f"{issuers} warpgroups, both operands in shared memory" if fragment.from_shared else f"{issuers} {fragment.maker.warp}s of {chains} chains"
        text += ", an addition to a register of B after each" if varies(fragment) else ""
        return cls(f"chains_{chains}", "chains_1", threads, issuers, 4 if fragment.from_shared else 32, text)


def _widest(fragment: Fragment) -> Fragment:
    """The instruction of most columns that a row stands for."""
    shape = max(fragment.shapes, key=lambda name: fragment.shapes[name].shape[1])
    return find(fragment.name.replace(fragment.shape_name, shape), "bringup")


def _words(fragment: Fragment) -> np.ndarray:
    """4 KiB of random words that are near 1, or of all integers: what a chip's power depends on."""
    rng = np.random.default_rng(0)
    if fragment.word in INTEGERS:
        return rng.integers(0, 256, 4096, np.uint8)
    numbers = rng.standard_normal(4096 // fragment.word_bytes).astype(np.float32)
    if fragment.word_bytes == 1:
        return to_float8(numbers, fragment.word)
    return {"f16": numbers.astype(np.float16), "bf16": (numbers.view(np.uint32) >> 16).astype(np.uint16), "tf32": numbers}[fragment.word]


def _best(found: Measured) -> tuple[bool, float]:
    """How good one of several measurements of a rate is: one at an even clock before all others."""
    return not found.throttled, found.value
