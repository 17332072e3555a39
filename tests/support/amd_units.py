"""Plans whose matrix unit rounds as one of AMD's: an A100 in everything else, so that its kernels can be built and run."""

from __future__ import annotations

from pathlib import Path

from gemmgen.catalog.gpu import GPUS
from gemmgen.paths import SPECS
from gemmgen.plan import Plan
from gemmgen.solve import solve
from gemmgen.spec import loads

UNITS = ("cdna1", "cdna2", "cdna3", "rdna3")


def plan_on(unit: str, scheme: str, folder: Path, promote: int = 0, block: tuple[int, int, int] = (64, 64, 32)) -> Plan:
    """A small plan of that scheme, on a GPU row written into `folder`."""
    row = (GPUS.folder / "a100.toml").read_text().replace('name = "a100"', f'name = "a100_{unit}"').replace('"ampere"', f'"{SPECS}/units/{unit}.toml"')
    path = folder / f"a100_{unit}.toml"
    path.write_text(row)
    return solve(loads({
        "split": {"scheme": scheme, "promote": promote}, "target": {"gpu": str(path)},
        "tile": {"block": list(block), "warp": [32, 32, block[2]]}, "pipeline": {"stages": 2, "fragment_buffers": 1},
    }))
