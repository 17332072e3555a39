"""The order of the rooms, and what may be imported where."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import gemmgen

PACKAGE = Path(gemmgen.__file__).parent

# A file imports only from its own room and from rooms before it.
ROOMS = (
    "", "errors", "paths", "files", "catalog", "decisions", "model", "designs", "spec", "plan", "solve", "naming", "abi", "render", "fragments", "split",
    "build", "emulate", "run", "verify", "export", "timing", "bench", "cli", "demo", "__main__",
)
HOMES = {
    "sympy": {"model"},
    "jinja2": {"render"},
    "pydantic": {"spec", "catalog"},
    "pydantic_core": set(),
    "cupy": {"run", "timing"},
    "hip": {"run"},
    "typer": {"cli"},
    "sklearn": {"demo"},
    "torch": {"timing"},
    "triton": {"timing"},
}
FILES = sorted(PACKAGE.rglob("*.py"))


def room_of(module: str) -> str:
    """`catalog` for gemmgen.catalog.gpu; the empty word for the package itself."""
    name = module.removeprefix("gemmgen").lstrip(".").partition(".")[0]
    return name if name in ROOMS or not hasattr(gemmgen, name) else ""


def imports(path: Path) -> Iterator[str]:
    """The full name of every module that a file imports anywhere, if only for type checkers."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path}:{node.lineno}: a relative import"
            if node.module == "gemmgen":
                yield from (f"gemmgen.{alias.name}" for alias in node.names)
            else:
                yield node.module


def room_of_file(path: Path) -> str:
    first = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
    return "" if first == "__init__" else first


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_file_imports_only_from_rooms_before_its_own(path):
    room = room_of_file(path)
    assert room in ROOMS, f"{room} has no place in the order yet"
    for module in imports(path):
        if module.partition(".")[0] == "gemmgen":
            there = room_of(module)
            assert there in ROOMS, f"{path.name} imports {module}, which has no place in the order"
            assert ROOMS.index(there) <= ROOMS.index(room), f"{path.name} of {room} imports {module} of a later room"


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_heavy_libraries_stay_in_their_rooms(path):
    for module in imports(path):
        homes = HOMES.get(module.partition(".")[0])
        assert homes is None or room_of_file(path) in homes, f"{path.name} imports {module}"


def test_a_later_room_would_be_noticed():
    """The test above can fail: render really comes after catalog, and errors is really first."""
    assert ROOMS.index(room_of("gemmgen.render")) > ROOMS.index(room_of("gemmgen.catalog.gpu"))
    assert "gemmgen.errors" in set(imports(PACKAGE / "catalog" / "table.py"))
    assert "jinja2" in set(imports(PACKAGE / "render.py"))


def test_importing_the_package_is_cheap():
    program = (
        "import sys, gemmgen\n"
        "print('loaded', *{'numpy', 'sympy', 'pydantic', 'jinja2', 'typer'} & set(sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split() == ["loaded"]
