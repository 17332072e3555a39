"""GPUs: budgets a kernel must fit and rates a model may use, with their source."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import Field, model_validator

from gemmgen.catalog.table import Row, Strict, Table
from gemmgen.catalog.unit import UNITS, MatrixUnit

Count = Annotated[int, Field(gt=0)]


class Limits(Strict):
    """Hardware limits, from the CUDA programming guide's table of compute
    capabilities and its occupancy rules."""

    warp_size: Literal[32]
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


class Rates(Strict):
    """Vendor figures at boost clock, dense."""

    sms: Count
    boost_mhz: Count
    f16_tflops: Annotated[float, Field(gt=0, strict=False)]
    f32_tflops: Annotated[float, Field(gt=0, strict=False)]
    dram_gb_per_s: Annotated[float, Field(gt=0, strict=False)]
    dram_gib: Annotated[float, Field(gt=0, strict=False)]
    l2_mib: Annotated[float, Field(gt=0, strict=False)]


class Gpu(Row):
    """One GPU model.

    Attributes:
        title: its full name.
        arch: the compile target, `sm_80`.
        matrix_unit: the row of specs/units that says how its matrix unit rounds.
    """

    title: str
    vendor: Literal["nvidia"]
    arch: Annotated[str, Field(pattern=r"^sm_\d{2,3}[af]?$")]
    matrix_unit: str
    limits: Limits
    rates: Rates

    @model_validator(mode="after")
    def _consistent(self) -> Gpu:
        limits = self.limits
        if limits.shared_bytes_per_block > limits.shared_bytes_per_sm:
            raise ValueError("shared_bytes_per_block of at most shared_bytes_per_sm")
        if limits.threads_per_block > limits.threads_per_sm:
            raise ValueError("threads_per_block of at most threads_per_sm")
        UNITS.get(self.matrix_unit, where=f"specs/gpus/{self.name}.toml: matrix_unit")
        return self

    @property
    def arch_number(self) -> int:
        """80 for sm_80, 90 for sm_90a."""
        return int(re.sub(r"\D", "", self.arch))

    @property
    def unit(self) -> MatrixUnit:
        return UNITS.get(self.matrix_unit)


GPUS = Table("GPU", "gpus", Gpu)
