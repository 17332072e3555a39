"""Part of a GPU's row, and lines of its data sheet that no row holds: what `gemmgen gpu from-row` makes a whole row of."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, create_model

from gemmgen.catalog.gpu import ARCH_PATTERN, Limits, Rates, Year
from gemmgen.catalog.number import UnitWord
from gemmgen.catalog.table import IDENTIFIER, LINE, Prose, Strict, Title
from gemmgen.catalog.vendor import VENDORS


def _parts(model: type[Strict], name: str) -> type[Strict]:
    """The same fields with the same bounds, none of them needed."""
    return create_model(name, __base__=Strict, **{
        key: (Annotated[(one.annotation, *one.metadata, Field(description=one.description))], None) for key, one in model.model_fields.items()
    })


PartialLimits, PartialRates = _parts(Limits, "PartialLimits"), _parts(Rates, "PartialRates")


_Tera = Annotated[float, Field(ge=0, le=1e6, allow_inf_nan=False)]


class Sheet(Strict):
    """Lines of a data sheet from which values of a row are computed, or which these are checked against."""

    cores: Annotated[int, Field(ge=1, le=1 << 20)] | None = Field(None, description="CUDA cores or stream processors")
    compute_units: Annotated[int, Field(ge=1, le=1 << 14)] | None = Field(None, description="compute units; RDNA's workgroup processors have two each")
    memory_bus_bits: Annotated[int, Field(ge=8, le=1 << 17)] | None = Field(None, description="width of the memory interface, bits")
    memory_gbit_per_pin: Annotated[float, Field(gt=0, le=1000, allow_inf_nan=False)] | None = Field(None, description="memory's rate, 10^9 bits a second a pin")
    register_file_kib: Annotated[int, Field(ge=1, le=1 << 24)] | None = Field(None, description="register files of all SMs, 2^10 bytes")
    shared_kib_per_sm: Annotated[int, Field(ge=1, le=1 << 12)] | None = Field(None, description="shared memory, or LDS, of one SM at its largest, 2^10 bytes")
    tflops: dict[UnitWord, _Tera] = Field({}, description="matrix units, dense, 10^12 operations a second by word type; 0 of those that they do not take")
    sparse_tflops: dict[UnitWord, _Tera] = Field({}, description="the same with sparsity, which is twice as many")


class Partial(Strict):
    """A GPU's row of which anything may be missing.

    Attributes:
        arch: its compile target, which `--arch` may tell instead.
        like: the arch whose limits and rates a clock are assumed, where no table knows those of its own.
        generation, matrix_unit: shipped rows, by name; needed where the arch has none of its own.
        measured: as a row has it.
        sheet: further lines of the data sheet.
    """

    name: Annotated[str, Field(pattern=IDENTIFIER)] | None = None
    title: Title | None = None
    year: Year | None = None
    source: Prose | None = None
    vendor: Literal[tuple(VENDORS)] | None = None
    arch: Annotated[str, Field(pattern=ARCH_PATTERN)] | None = None
    like: Annotated[str, Field(pattern=ARCH_PATTERN)] | None = None
    matrix_unit: Annotated[str, Field(pattern=LINE)] | None = None
    generation: Annotated[str, Field(pattern=LINE)] | None = None
    batch_threads: Annotated[int, Field(ge=1, le=1 << 30)] | None = None
    limits: PartialLimits = PartialLimits()
    rates: PartialRates = PartialRates()
    measured: dict[str, Any] = {}
    sheet: Sheet = Sheet()

    def numbers(self) -> dict[str, Any]:
        """What it tells of `[limits]` and `[rates]`, by key; words' rates as `tensor_fma_per_clock.f16`."""
        told: dict[str, Any] = {}
        for table in (self.limits, self.rates):
            told |= table.model_dump(exclude_unset=True)
        words = told.pop("tensor_fma_per_clock", {})
        return told | {f"tensor_fma_per_clock.{word}": rate for word, rate in words.items()}

    def lines(self) -> dict[str, Any]:
        """The data sheet's lines by key; words' as `tflops.s8`."""
        told = self.sheet.model_dump(exclude_unset=True)
        for table in ("tflops", "sparse_tflops"):
            told |= {f"{table}.{word}": value for word, value in told.pop(table, {}).items()}
        return told
