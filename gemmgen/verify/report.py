"""What the judgement gives back: each question with its answer, the errors beside their bounds, the resources beside the predicted ones."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gemmgen.model.resources import Occupancy
from gemmgen.run import Result
from gemmgen.shown import Shown
from gemmgen.verdict import Verdict
from gemmgen.verify.bound import Bound
from gemmgen.verify.expected import AS_FP32
from gemmgen.verify.metrics import Errors
from gemmgen.verify.sample import Sample


@dataclass(frozen=True)
class Check:
    """One question and its answer.

    Attributes:
        name: what was asked.
        passed: the answer.
        detail: the numbers behind it, in one line.
    """

    name: str
    passed: bool
    detail: str


@dataclass(frozen=True)
class Accuracy:
    """The errors of one product against its bounds.

    Attributes:
        within: whether every element is within the deterministic bound, and Inf and NaN stand where the elements' type has them.
        of_fp32: its relative Frobenius error over that of a sequential dot product of that type, on a sample.
    """

    check: Check
    errors: Errors
    bound: Bound
    result: Result
    within: bool
    of_fp32: float


@dataclass(frozen=True)
class Resources:
    """What the compiler used, beside what was predicted; bytes, and registers a thread."""

    registers: int
    predicted_registers: int | None
    spill_bytes: int
    shared_bytes: int
    predicted_shared_bytes: int
    occupancy: Occupancy


@dataclass(frozen=True, repr=False)
class Report(Shown):
    """The judgement on one kernel on one device.

    Attributes:
        errors: of the headline product: the user's matrices, or U[-1, 1]; None where nothing could run.
        bound: what they are held against.
        status: what the kernels counted there.
        of_fp32: for each product whose error is reported, that error over FP32's own: of a sequential dot product of the same data, of FP64 where that is the
            elements' type.
        element: that type, in words.
        promises: the scheme's name, as whose bound a kernel passes that need not be as good as FP32.
        verdict: what the kernel is worth beside plain FP32; None where it is not known.
        sample: the blocks of C that were computed of the products whose errors are reported; None for all.
        smaller: why these products are smaller than what was asked for; empty where they are not.
        device_kind: as its driver calls it; `none` where nothing could run.
        standing: as `standing` says it.
        unverified: why the numbers could not be judged; empty where they were.
    """

    kernel: str
    arch: str
    device: str
    resources: Resources
    errors: Errors | None
    bound: Bound | None
    size: tuple[int, int, int] | None
    status: dict[str, int]
    seconds: float | None
    checks: tuple[Check, ...] = field(default=())
    device_kind: str = "none"
    standing: str = ""
    unverified: str = ""
    of_fp32: dict[str, float] = field(default_factory=dict)
    promises: str = ""
    verdict: Verdict | None = None
    sample: Sample | None = None
    smaller: str = ""
    element: str = "FP32"

    def _told(self) -> dict[str, Any]:
        failed = ", ".join(check.name for check in self.checks if not check.passed)
        size = " x ".join(map(str, self.size)) if self.size else None
        error = f"{self.errors.relative_frobenius:.2e} (bound {self.bound.relative_frobenius:.2e})" if self.errors and self.bound else None
        return {"kernel": self.kernel, "verdict": "passed" if self.passed else f"failed: {failed}" if self.failed else f"not verified: {self.unverified}",
                "device": self.device, "size": size, "relative Frobenius": error, "checks": len(self.checks)}

    @property
    def as_fp32(self) -> bool:
        """Whether every product's error is FP32's own, or not much more."""
        return bool(self.of_fp32) and all(ratio <= AS_FP32 for ratio in self.of_fp32.values())

    @property
    def passed(self) -> bool:
        return not self.unverified and not self.failed

    @property
    def failed(self) -> bool:
        """Whether a check says that the kernel is not right; what is not verified need not be wrong."""
        return not all(check.passed for check in self.checks)

    def as_dict(self) -> dict[str, Any]:
        """For `--json`."""
        r = self.resources
        return {
            "kernel": self.kernel,
            "arch": self.arch,
            "device": self.device,
            "size": dict(zip("mnk", self.size)) if self.size else None,
            "resources": {
                "registers": r.registers, "predicted_registers": r.predicted_registers,
                "spill_bytes": r.spill_bytes, "shared_bytes": r.shared_bytes,
                "predicted_shared_bytes": r.predicted_shared_bytes, "occupancy": round(r.occupancy.fraction, 4),
                "blocks_per_sm": r.occupancy.blocks, "limited_by": r.occupancy.limited_by,
            },
            "errors": self.errors.as_dict() if self.errors else None,
            "bound": {"relative_frobenius": self.bound.relative_frobenius, "scaled": self.bound.scaled} if self.bound else None,
            "error_over_fp32s": {name: round(ratio, 4) for name, ratio in self.of_fp32.items() if np.isfinite(ratio)},
            "as_fp32": self.as_fp32,
            "status": self.status,
            "seconds": self.seconds,
            "checks": [{"name": c.name, "passed": c.passed, "detail": c.detail} for c in self.checks],
            "passed": self.passed,
            "verdict": self.verdict.as_dict() if self.verdict else None,
            "sample": {"blocks": self.sample.blocks, "of": self.sample.of, "sentence": self.sample.told} if self.sample else None,
            **({"smaller": self.smaller} if self.smaller else {}),
            **({"standing": self.standing} if self.standing else {}),
            **({"unverified": self.unverified} if self.unverified else {}),
        }
