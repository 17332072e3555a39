"""GPUs: budgets a kernel must fit and rates a model may use, with their source."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, PrivateAttr, ValidationInfo, model_validator

from gemmgen.catalog.architecture import architecture
from gemmgen.catalog.generation import GENERATION_TABLE, Measured, merged, with_own
from gemmgen.catalog.number import UnitWord
from gemmgen.catalog.registers import Registers
from gemmgen.catalog.table import LINE, File, Row, Strict, Table, Title
from gemmgen.catalog.unit import UNITS, MatrixUnit
from gemmgen.catalog.vendor import VENDORS, Vendor, vendor_of
from gemmgen.errors import SpecError

RATE_TOLERANCE = 0.02
_ARCH = "|".join(row.arch_pattern for row in VENDORS.values())
ARCH_PATTERN = f"^({_ARCH})$"
"""Of compile targets."""
Year = Annotated[int, Field(ge=2006, le=2099)]
"""Since there has been CUDA."""
REGISTER_PARTITIONS = 4
"""The register file is four files, one a scheduler, on every SM since sm_50 but sm_60's, and one a SIMD of AMD's."""


def _count(low: int, high: int, **more: str) -> type[int]:
    """An integer within bounds that no GPU of today comes near, by 8 and more: beyond them it is a slip."""
    return Annotated[int, Field(**({"gt": 0} if low == 1 else {"ge": low}), le=high, **more)]


def _rate(low: float, high: float, description: str) -> type[float]:
    """Likewise a number."""
    return Annotated[float, Field(ge=low, le=high, allow_inf_nan=False, description=description)]


GENERATIONS = (
    ("volta", 70), ("turing", 73), ("ampere", 80), ("ada", 89), ("hopper", 90), ("blackwell", 100), ("blackwell_rtx", 120), (None, 130),
    ("cdna1", 0x908), (None, 0x909), ("cdna2", 0x90A), (None, 0x90B), ("cdna3", 0x940), ("cdna4", 0x950), (None, 0x951),
    ("rdna3", 0x1100), (None, 0x1160), ("rdna4", 0x1200), (None, 0x1260),
)
"""The shipped row of specs/units that says how the matrix units of an arch round, and the `arch_number` from which on; None where none does."""


def arch_number(arch: str) -> int:
    """80 for sm_80, 90 for sm_90a; for AMD the digits as they are written, in base 16: 0x90a for gfx90a.

    Numbers order the generations of one vendor; AMD's all lie above NVIDIA's.
    """
    if arch.startswith("gfx"):
        return int(arch[3:], 16)
    return int(re.sub(r"\D", "", arch))


def generation(number: int) -> str | None:
    """The shipped row of specs/units for an `arch_number`; None where there is none."""
    return next((unit for unit, first in reversed(GENERATIONS) if number >= first), None)


def nearest_generation(maker: Vendor, number: int) -> str:
    """The vendor's shipped row of specs/generations for an `arch_number`; where none is of it, the one before, or the first."""
    shown = GENERATION_TABLE.names()
    mine = [(first, unit) for unit, first in GENERATIONS if unit in shown and GENERATION_TABLE.get(unit).vendor == maker.name]
    return max([one for one in mine if one[0] <= number], default=mine[0])[1]


class Limits(Strict):
    """Hardware limits: NVIDIA's from the CUDA programming guide's table of compute
    capabilities and its occupancy rules, AMD's from the ISA guides and LLVM's AMDGPU usage guide.

    In words common to both: a wavefront is a warp; a compute unit of CDNA, and a workgroup
    processor of RDNA, which two compute units make, is an SM; LDS is shared memory; each of its
    four SIMDs has a quarter of the registers. A register is 32 bits of one lane, be it an
    architectural or an accumulation one. Banks of shared memory are 4 bytes wide.
    """

    warp_size: Literal[32, 64]
    threads_per_block: _count(32, 1024)
    threads_per_sm: _count(32, 1 << 14)
    blocks_per_sm: _count(1, 512)
    registers_per_sm: _count(1 << 12, 1 << 21)
    registers_per_thread: _count(64, 512)
    register_allocation_unit: _count(32, 1 << 13)
    shared_bytes_per_sm: _count(1 << 13, 1 << 21)
    shared_bytes_per_block: _count(1 << 13, 1 << 21)
    shared_bytes_reserved_per_block: _count(0, 1 << 14)
    shared_allocation_unit: _count(4, 1 << 14)
    shared_banks: Literal[32, 64] = 32

    @model_validator(mode="after")
    def _agree(self) -> Limits:
        if self.shared_bytes_per_block + self.shared_bytes_reserved_per_block > self.shared_bytes_per_sm:
            raise ValueError("shared_bytes_per_block of at most shared_bytes_per_sm, less shared_bytes_reserved_per_block")
        if self.threads_per_block > self.threads_per_sm:
            raise ValueError("threads_per_block of at most threads_per_sm")
        for name in ("threads_per_block", "threads_per_sm", "register_allocation_unit"):
            if getattr(self, name) % self.warp_size:
                raise ValueError(f"{name} of whole warps, {self.warp_size} threads each")
        if self.registers_per_sm % (REGISTER_PARTITIONS * self.register_allocation_unit):
            raise ValueError(f"registers_per_sm of {REGISTER_PARTITIONS} parts, each of whole allocation units")
        return self


class Rates(Strict):
    """Vendor figures, dense.

    The two TFLOPS figures are the vendor's; the clocks and rates a clock say
    what they rest on, and must agree with them.
    """

    sms: _count(1, 4096, description="streaming multiprocessors; of AMD, compute units, or RDNA's workgroup processors")
    boost_mhz: _count(100, 20000, description="boost clock, the one of f32_tflops")
    tensor_boost_mhz: _count(100, 20000, description="boost clock under matrix work, the one of f16_tflops")
    f32_fma_per_clock: _count(1, 4096, description="FP32 multiply-adds of one SM in a clock")
    f16_tflops: _rate(0.1, 1e5, "matrix units on f16, FP32 accumulation, dense")
    f32_tflops: _rate(0.01, 1e4, "FP32 outside the matrix units")
    f64_tflops: Annotated[float, Field(ge=0.001, le=1e4, allow_inf_nan=False)] | None = Field(None, description=(
        "native FP64, by matrix units where they multiply it; left out where no figure is known"
    ))
    shared_bytes_per_clock: _count(1, 4096, description="shared memory of one SM, bytes in a clock")
    dram_gb_per_s: _rate(1, 1e6, "device memory, 10^9 bytes a second")
    dram_gib: _rate(0.25, 1e4, "device memory, 2^30 bytes, as sold")
    l2_mib: _rate(0.03, 1e4, "L2 cache, 2^20 bytes")
    tensor_fma_per_clock: Annotated[
        dict[UnitWord, _count(1, 1 << 16)],
        Field(description="multiply-adds of one SM's matrix units in a clock, with FP32 accumulation (INT32 of s8), by word type"),
    ]

    @property
    def computes_f64(self) -> bool:
        """Whether FP64 instructions are as cheap as integer ones: GeForce's, and those of some data center GPUs, have 1/32 or less of FP32's rate."""
        return self.f64_tflops is not None and self.f64_tflops >= self.f32_tflops / 8

    @model_validator(mode="after")
    def _agree(self) -> Rates:
        """TFLOPS are SMs x clock x multiply-adds x 2, up to the vendor's rounding."""
        if "f16" not in self.tensor_fma_per_clock:
            raise ValueError("tensor_fma_per_clock of f16")
        for name, stated, clock, factors in (
            ("f16_tflops", self.f16_tflops, self.tensor_boost_mhz, "tensor_boost_mhz * tensor_fma_per_clock.f16"),
            ("f32_tflops", self.f32_tflops, self.boost_mhz, "boost_mhz * f32_fma_per_clock"),
        ):
            fma = self.tensor_fma_per_clock["f16"] if name == "f16_tflops" else self.f32_fma_per_clock
            product = 2e-6 * self.sms * clock * fma
            if abs(stated - product) > RATE_TOLERANCE * product:
                raise ValueError(
                    f"{name} within {100 * RATE_TOLERANCE:g} % of {product:.4g} = 2 * sms * {factors}, not {stated:g}"
                )
        return self

    def tensor_tflops(self, word: str) -> float | None:
        """Peak of the matrix units on a word type, scaled from f16's; None where they do not take it."""
        rates = self.tensor_fma_per_clock
        return self.f16_tflops * rates[word] / rates["f16"] if word in rates else None


class Gpu(Row):
    """One GPU model.

    Attributes:
        title: its full name.
        year: in which it was first sold; None where the row does not tell.
        arch: the compile target, `sm_80` or `gfx90a`.
        limits, rates: what gemmgen/catalog/architecture.py says of the arch, but for what the row tells itself.
        matrix_unit: the row of specs/units that says how its matrix unit rounds; a .toml file is sought beside the row's own.
        generation: the row of specs/generations, or a .toml file likewise, whose measured rates it has; by default that of the arch.
        measured: what kernels reach of its figures: the generation's, but for those that the row tells itself.
        registers: what compilers give threads for its arch: likewise.
        batch_threads: threads at work from which on a batch's tiling is parallel enough, as calibrated; None where nobody has.
    """

    title: Title
    year: Year | None = None
    vendor: Literal[tuple(VENDORS)]
    arch: Annotated[str, Field(pattern=ARCH_PATTERN)]
    matrix_unit: Annotated[str, Field(min_length=1, max_length=200)]
    limits: Limits
    rates: Rates
    generation: Annotated[str, Field(pattern=LINE, max_length=200)]
    measured: Measured
    registers: Registers
    batch_threads: Annotated[int, Field(ge=1, le=1 << 30)] | None = None
    _folder: Path | None = PrivateAttr(None)  # of the row's file, from which a unit's file is sought

    @model_validator(mode="before")
    @classmethod
    def _inherits(cls, data: Any, info: ValidationInfo) -> Any:
        """Fills in what the arch and the generation tell; a row whose vendor or arch is none is left for the fields to refuse."""
        arch = data.get("arch") if isinstance(data, dict) else None
        if not isinstance(arch, str) or not re.fullmatch(_ARCH, arch) or not isinstance(data.get("generation", ""), str):
            return data
        file = info.context if isinstance(info.context, File) else None
        if known := architecture(arch):
            data = {**data, "limits": merged(known.limits, data.get("limits", {})), "rates": merged(known.rates, data.get("rates", {}))}
        elif "limits" not in data:
            raise SpecError(
                f"{file.place if file else arch}: [limits]", f"is missing, and no table knows those of {arch}", needs=", ".join(Limits.model_fields),
                remedy="such a section in the row; gemmgen gpu from-row takes those of another arch over",
            )
        maker = vendor_of(arch)
        name = data["generation"] if "generation" in data else nearest_generation(maker, arch_number(arch))
        place = f"{file.place}: generation" if file else "generation"
        row = GENERATION_TABLE.get(name, where=place, relative_to=file and file.folder)
        if row.vendor != maker.name:
            raise ValueError(f"a generation of {maker.name}'s, whose arch {arch} is; {row.name} is {row.vendor}'s")
        own = data.get("registers", {})
        registers = with_own(row.registers, own, row.registers.source)
        since = {first: offset for first, offset in row.registers.since.items() if arch_number(first) <= arch_number(arch)}
        if since and isinstance(own, dict) and "offset" not in own:
            registers["offset"] = since[max(since, key=arch_number)]
        return {**data, "generation": name, "measured": merged(row.measured.model_dump(), data.get("measured", {})), "registers": registers}

    @model_validator(mode="after")
    def _consistent(self, info: ValidationInfo) -> Gpu:
        limits = self.limits
        maker, owner = self.maker, vendor_of(self.arch)
        if owner is not maker:
            raise ValueError(f"an arch of vendor {self.vendor}; {self.arch} is {owner.name}'s")
        if limits.warp_size != (lanes := maker.warp_size(self.arch_number)):
            raise ValueError(f"warp_size = {lanes}, that of {self.arch}")
        if limits.registers_per_thread > (maker.most_registers or limits.registers_per_thread) or limits.shared_banks not in maker.shared_banks:
            banks = " or ".join(map(str, maker.shared_banks))
            raise ValueError(f"registers_per_thread of at most {maker.most_registers} and shared_banks = {banks}, where the vendor is {self.vendor}")
        file = info.context if isinstance(info.context, File) else File(f"specs/gpus/{self.name}.toml", Path())
        self._folder = file.folder
        UNITS.get(self.matrix_unit, where=f"{file.place}: matrix_unit", relative_to=self._folder, hidden=True)
        own = self.matrix_unit.endswith(".toml")
        if not own and self.matrix_unit != (known := generation(self.arch_number)):
            raise ValueError(
                f"a matrix_unit of {self.arch}: " + (f'"{known}", or ' if known else "none ships; ") + "a .toml file of your own, with what you know of it"
            )
        return self

    @property
    def maker(self) -> Vendor:
        """Its vendor's row."""
        return VENDORS[self.vendor]

    @property
    def arch_number(self) -> int:
        return arch_number(self.arch)

    @property
    def async_copies(self) -> bool:
        """Whether copies to shared memory go past the registers, in the background."""
        first = self.maker.first_async
        return first is not None and self.arch_number >= first

    @property
    def batch_threshold(self) -> int:
        """The threshold of BatchGEMM's Algorithm 1, threads: the row's; assumed to be a quarter of what the GPU holds where that has none."""
        return self.batch_threads or self.rates.sms * self.limits.threads_per_sm // 4

    @property
    def portable_policy(self) -> str:
        """The programming interface of its matrix units that kernels of the portable design use: CDNA's MFMA, RDNA's WMMA."""
        return self.maker.portable_policies[self.limits.warp_size]

    @property
    def unit(self) -> MatrixUnit:
        return UNITS.get(self.matrix_unit, relative_to=self._folder, hidden=True)


GPUS = Table("GPU", "gpus", Gpu)
