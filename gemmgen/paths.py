"""Where the data that ships with gemmgen lies.

In a source checkout `templates/`, `specs/` and `cmake/` are top-level folders; in a wheel
they lie inside the package. All are looked up beside this file and never along
`sys.path`, where an old install could answer first.
"""

from __future__ import annotations

from pathlib import Path

PACKAGE = Path(__file__).resolve().parent


def _shipped(name: str) -> Path:
    inside = PACKAGE / name
    return inside if inside.is_dir() else PACKAGE.parent / name


TEMPLATES = _shipped("templates")
SPECS = _shipped("specs")
CMAKE = _shipped("cmake")
