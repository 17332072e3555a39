"""GPUs: budgets a kernel must fit and rates a model may use, with their source."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import Field, model_validator

from gemmgen.catalog.number import UnitWord
from gemmgen.catalog.table import LINE, Row, Strict, Table
from gemmgen.catalog.unit import UNITS, MatrixUnit

Count = Annotated[int, Field(gt=0)]
RATE_TOLERANCE = 0.02


VENDOR_OF = {"sm_": "nvidia", "gfx": "amd"}
"""Whose compile target begins so."""
AMD_EMULATED = ("gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1101", "gfx1102", "gfx1200", "gfx1201")
"""AMD's targets whose assembly the emulator executes."""
FIRST_ASYNC = 80
"""The first sm_ number that copies from global to shared memory past the registers."""


def arch_number(arch: str) -> int:
    """80 for sm_80, 90 for sm_90a; for AMD the digits as they are written, in base 16: 0x90a for gfx90a.

    Numbers order the generations of one vendor; AMD's all lie above NVIDIA's.
    """
    if arch.startswith("gfx"):
        return int(arch[3:], 16)
    return int(re.sub(r"\D", "", arch))


class Limits(Strict):
    """Hardware limits: NVIDIA's from the CUDA programming guide's table of compute
    capabilities and its occupancy rules, AMD's from the ISA guides and LLVM's AMDGPU usage guide.

    In words common to both: a wavefront is a warp; a compute unit of CDNA, and a workgroup
    processor of RDNA, which two compute units make, is an SM; LDS is shared memory; each of its
    four SIMDs has a quarter of the registers. A register is 32 bits of one lane, be it an
    architectural or an accumulation one. Banks of shared memory are 4 bytes wide.
    """

    warp_size: Literal[32, 64]
    threads_per_block: Count
    threads_per_sm: Count
    blocks_per_sm: Count
    registers_per_sm: Count
    registers_per_thread: Count
    register_allocation_unit: Count
    shared_bytes_per_sm: Count
    shared_bytes_per_block: Count
    shared_bytes_reserved_per_block: Annotated[int, Field(ge=0)]
    shared_allocation_unit: Count
    shared_banks: Literal[32, 64] = 32


class Rates(Strict):
    """Vendor figures, dense.

    The two TFLOPS figures are the vendor's; the clocks and rates a clock say
    what they rest on, and must agree with them.
    """

    sms: Annotated[int, Field(gt=0, description="streaming multiprocessors; of AMD, compute units, or RDNA's workgroup processors")]
    boost_mhz: Annotated[int, Field(gt=0, description="boost clock, the one of f32_tflops")]
    tensor_boost_mhz: Annotated[int, Field(gt=0, description="boost clock under matrix work, the one of f16_tflops")]
    f32_fma_per_clock: Annotated[int, Field(gt=0, description="FP32 multiply-adds of one SM in a clock")]
    f16_tflops: Annotated[float, Field(gt=0, strict=False, description="matrix units on f16, FP32 accumulation, dense")]
    f32_tflops: Annotated[float, Field(gt=0, strict=False, description="FP32 outside the matrix units")]
    shared_bytes_per_clock: Annotated[int, Field(gt=0, description="shared memory of one SM, bytes in a clock")]
    dram_gb_per_s: Annotated[float, Field(gt=0, strict=False, description="device memory, 10^9 bytes a second")]
    dram_gib: Annotated[float, Field(gt=0, strict=False, description="device memory, 2^30 bytes, as sold")]
    l2_mib: Annotated[float, Field(gt=0, strict=False, description="L2 cache, 2^20 bytes")]
    tensor_fma_per_clock: Annotated[
        dict[UnitWord, Count],
        Field(description="multiply-adds of one SM's matrix units in a clock, with FP32 accumulation, by word type"),
    ]

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
        arch: the compile target, `sm_80` or `gfx90a`.
        matrix_unit: the row of specs/units that says how its matrix unit rounds.
    """

    title: Annotated[str, Field(pattern=LINE)]
    vendor: Literal["nvidia", "amd"]
    arch: Annotated[str, Field(pattern=r"^(sm_\d{2,3}[af]?|gfx[0-9a-f]{3,4})$")]
    matrix_unit: str
    limits: Limits
    rates: Rates

    @model_validator(mode="after")
    def _consistent(self) -> Gpu:
        limits = self.limits
        if VENDOR_OF[self.arch[:3]] != self.vendor:
            raise ValueError(f"an arch of vendor {self.vendor}; {self.arch} is {VENDOR_OF[self.arch[:3]]}'s")
        if limits.shared_bytes_per_block + limits.shared_bytes_reserved_per_block > limits.shared_bytes_per_sm:
            raise ValueError("shared_bytes_per_block of at most shared_bytes_per_sm, less shared_bytes_reserved_per_block")
        if limits.threads_per_block > limits.threads_per_sm:
            raise ValueError("threads_per_block of at most threads_per_sm")
        UNITS.get(self.matrix_unit, where=f"specs/gpus/{self.name}.toml: matrix_unit")
        return self

    @property
    def arch_number(self) -> int:
        return arch_number(self.arch)

    @property
    def async_copies(self) -> bool:
        """Whether copies to shared memory go past the registers, in the background."""
        return self.vendor == "nvidia" and self.arch_number >= FIRST_ASYNC

    @property
    def portable_policy(self) -> str:
        """The programming interface of its matrix units that kernels of the portable skeleton use: CDNA's MFMA, RDNA's WMMA."""
        if self.vendor == "amd":
            return "mfma" if self.limits.warp_size == 64 else "wmma"
        return "mma"

    @property
    def unit(self) -> MatrixUnit:
        return UNITS.get(self.matrix_unit)


GPUS = Table("GPU", "gpus", Gpu)
