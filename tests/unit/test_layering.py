"""The order of the rooms, and what may be imported where."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterable
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import gemmgen
from gemmgen.designs import all_decisions

PACKAGE = Path(gemmgen.__file__).parent

# A file imports only from its own room and from rooms before it.
ROOMS = (
    "", "errors", "shown", "paths", "files", "cache", "catalog", "interface", "batch", "decisions", "model", "kinds", "designs", "spec", "views", "plan", "solve", "verdict", "picture", "naming", "abi", "unused", "render",
    "fragment_header", "fragment_uses", "split", "drivers", "build", "emulate", "run", "verify", "export", "timing", "library", "road", "doctor", "api", "cli", "verbs", "demo", "__main__",
    "workshop", "workshop.explore", "workshop.bench", "workshop.programs", "workshop.tune", "workshop.fit", "workshop.choose", "workshop.apps", "workshop.bringup", "workshop.verbs",
)
WORKSHOP = "workshop"
"""What begins so is the workshop's, the rest the house's."""
HOMES = {
    "sympy": {"model"},
    "jinja2": {"render"},
    "pydantic": {"spec", "catalog", "library", "workshop.explore", "workshop.bench", "workshop.choose"},
    "pydantic_core": set(),
    "cupy": {"run", "timing", "api", "workshop.apps"},
    "hip": {"run"},
    "typer": {"cli", "verbs", "workshop.verbs"},
    "sklearn": {"workshop.apps"},
    "torch": {"timing", "workshop.apps"},
    "triton": {"timing"},
    "pyarrow": {"workshop.explore"},
    "duckdb": {"workshop.explore"},
    "distributed": {"workshop.explore"},
    "dask": {"workshop.explore"},
    "optuna": {"workshop.explore"},
    "plotly": {"workshop.explore"},
    "scipy": {"workshop.choose", "workshop.apps"},
}
FILES = sorted(PACKAGE.rglob("*.py"))
JUSTIFIED = {
    ("gemmgen.build", "gemmgen.build.choice"): "for type checkers: the room's front looks names up when they are asked for",
}
"""Imports that lead back to where they come from, and why they may. None is executed while its file is loaded."""


def room_of(module: str) -> str:
    """`catalog` for gemmgen.catalog.gpu, `workshop.tune` for gemmgen.workshop.tune.walk; the empty word for the package itself."""
    first, _, rest = module.removeprefix("gemmgen").lstrip(".").partition(".")
    name = f"{first}.{rest.partition('.')[0]}" if first == WORKSHOP and rest else first
    return name if name in ROOMS or not hasattr(gemmgen, name) else ""


@cache
def nodes(path: Path) -> list[ast.AST]:
    """Every node of a file that a test of this file asks for, wherever it stands."""
    wanted = ast.Import | ast.ImportFrom | ast.ClassDef | ast.Compare | ast.Attribute
    return [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, wanted)]


def statements(path: Path) -> list[ast.Import | ast.ImportFrom]:
    """Every import of a file."""
    return [node for node in nodes(path) if isinstance(node, ast.Import | ast.ImportFrom)]


def imports(path: Path) -> list[str]:
    """The full name of every module that a file imports anywhere, if only for type checkers."""
    found: list[str] = []
    for node in statements(path):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        else:
            assert not node.level, f"{path}:{node.lineno}: a relative import"
            found += [f"gemmgen.{alias.name}" for alias in node.names] if node.module == "gemmgen" else [node.module]
    return found


def module_of(path: Path) -> str:
    """`gemmgen.catalog` for catalog/__init__.py."""
    return ".".join(("gemmgen", *path.relative_to(PACKAGE).with_suffix("").parts)).removesuffix(".__init__")


def import_graph() -> dict[str, set[str]]:
    """Every module of the package, and which others it imports anywhere: at its top, inside functions or for type checkers."""
    modules = {module_of(path): path for path in FILES}
    graph: dict[str, set[str]] = {}
    for module, path in modules.items():
        found = graph[module] = set()
        for node in statements(path):
            if isinstance(node, ast.Import):
                found.update(alias.name for alias in node.names)
            else:
                inner = {f"{node.module}.{alias.name}" for alias in node.names}
                found.update(inner & modules.keys())
                if inner - modules.keys():
                    found.add(node.module)
        found &= modules.keys() - {module}
    return graph


def reached(graph: dict[str, set[str]], start: str) -> set[str]:
    """All modules that importing one may load, by whatever way."""
    found, left = set(), {start}
    while left:
        found |= left
        left = set().union(*(graph[module] for module in left)) - found
    return found


def room_of_file(path: Path) -> str:
    return room_of(module_of(path))


def test_a_file_imports_only_from_rooms_before_its_own():
    assert not {room_of_file(path) for path in FILES} - {*ROOMS}, "rooms that have no place in the order yet"
    ours = [(path, module, room_of(module)) for path in FILES for module in imports(path) if module.partition(".")[0] == "gemmgen"]
    assert not [f"{path} imports {module}, which has no place in the order" for path, module, there in ours if there not in ROOMS]
    assert not [f"{path} imports {module} of a later room" for path, module, there in ours if ROOMS.index(there) > ROOMS.index(room_of_file(path))]


def test_heavy_libraries_stay_in_their_rooms():
    found = [(path, module, HOMES.get(module.partition(".")[0])) for path in FILES for module in imports(path)]
    assert not [f"{path} imports {module}" for path, module, homes in found if homes is not None and room_of_file(path) not in homes]


def test_no_import_leads_back_to_where_it_comes_from():
    graph = import_graph()
    for module, target in JUSTIFIED:
        graph.get(module, set()).discard(target)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" <- ".join(error.args[1]))


def test_the_emulators_core_knows_neither_machine():
    graph = import_graph()
    parts = {part: {m for m in graph if m.startswith(f"gemmgen.emulate.{part}")} for part in ("core", "ptx", "amdgpu")}
    assert all(len(modules) > 10 for modules in parts.values())
    for part, others in (("core", ("ptx", "amdgpu")), ("ptx", ("amdgpu",)), ("amdgpu", ("ptx",))):
        for module in parts[part]:
            for other in others:
                assert not reached(graph, module) & parts[other], f"{module} reaches {other}"
    for machine in ("ptx", "amdgpu"):  # the way there is found where there is one
        assert "gemmgen.emulate.core.memory" in reached(graph, f"gemmgen.emulate.{machine}.emulator")
    program = (
        "import importlib, sys\n"
        f"for module in {sorted(parts['core'])}: importlib.import_module(module)\n"
        "print(*(m for m in sys.modules if m.startswith(('gemmgen.emulate.ptx', 'gemmgen.emulate.amdgpu'))))"
    )
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split() == []


def test_the_house_never_imports_the_workshop():
    """Not by any way: what the house does, it does where the workshop is not installed."""
    graph = import_graph()
    house = {module for module in graph if not room_of(module).startswith(WORKSHOP)}
    assert len(house) > 200 and len(graph) - len(house) > 80
    assert {(module, found) for module in house for found in graph[module] - house} == set()


def test_the_command_line_knows_no_verb():
    """Verbs lie in folders of their own and register themselves; nobody imports them."""
    from gemmgen.cli.app import verb_modules
    from gemmgen.cli.verb import VERBS

    modules = {module for module in import_graph() if ".verbs." in module}
    assert set(verb_modules()) == modules and {one.function.__module__ for one in VERBS.values()} == modules
    assert not {module for module, found in import_graph().items() if found & modules}
    texts = [path.read_text() for path in (PACKAGE / "cli" / "app.py", PACKAGE / "cli" / "__init__.py")]
    assert not [name for name in VERBS for text in texts if f'"{name}"' in text]


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


COMPARED = {
    "gemmgen/cli/explain.py: kind == GEMM": "what one product computes needs no words",
    "gemmgen/designs/design.py: (POINTERS if kind.indirect else STRIDED if kind.batched else GEMM).name in self.kinds":
        "kernels of any kind are those of one product or of a batch",
    "gemmgen/library/tables.py: plan.kind.asked not in (GEMM.name, STRIDED.name, *LEVEL3)": "the routines of a library's interface",
    "gemmgen/library/raced.py: kernel['spec'].get('problem', {}).get('kind') == STRIDED.name": "a manifest has the name of a kind alone",
    "gemmgen/solve/applicable.py: case.kind.name == GROUPED.name": "the description of a product among others has room for real alpha and beta alone",
    "gemmgen/solve/applicable.py: GROUPED.name in design.kinds": "several tiles are a choice of designs for products of different sizes",
    "gemmgen/verdict.py: kind in (GEMM, STRIDED)": "the vendor's SGEMM is their routine, and no share of it",
    "gemmgen/verify/digests.py: plan.kind.asked == GEMM.name": "digests were published of one product, of real or complex elements",
}
"""Where a kind of products is compared with another outside of its own room, and why."""


def kinds_compared(nodes: Iterable[ast.AST], names: set[str]) -> list[str]:
    """Each comparison with a kind of those, by its name as text or as a constant."""
    found = []
    for node in nodes:
        if isinstance(node, ast.Compare):
            others = {part.value if isinstance(part, ast.Constant) else part.id.lower() if part.id.isupper() else ""
                      for part in ast.walk(node) if isinstance(part, ast.Constant | ast.Name)}
            found += [ast.unparse(node)] if others & names and "kind" in ast.unparse(node) else []
    return found


def test_what_a_kind_is_it_is_asked_for():
    """It is not found out by a comparison, and its name is written in its own room alone."""
    from gemmgen.kinds import all_kinds

    found = {f"gemmgen/{path.relative_to(PACKAGE)}: {one}" for path in FILES if room_of_file(path) != "kinds"
             for one in kinds_compared(nodes(path), {*all_kinds()})}
    assert found == {*COMPARED}
    tree = ast.parse("a = plan.kind in (SYRK, TRSM) or row.kind == 'kernel' or kind.name != 'gemm'")
    assert kinds_compared(ast.walk(tree), {*all_kinds()}) == [
        "plan.kind in (SYRK, TRSM)", "kind.name != 'gemm'",
    ]


def test_a_schemes_k_of_a_tile_is_asked_for_in_its_own_room():
    """Others ask the scheme's family, which is one of several classes."""
    asked = {room_of_file(path) for path in FILES for node in nodes(path)
             if isinstance(node, ast.Attribute) and node.attr in ("fixed", "tiled", "residues", "tile_k") and ast.unparse(node.value).endswith("scheme")}
    assert asked <= {"catalog"}


MOST_LINES, MOST_MEMBERS = 600, 25
LARGE = {
    "gemmgen/kinds/kind.py: Kind": "the page on a new kind of product goes through them one by one, and a kind says only those that differ",
    "gemmgen/workshop/explore/trial_row.py: Row": "each member is a column of the store of trials",
}
"""Classes that have more members, and why."""


def members(node: ast.ClassDef) -> set[str]:
    """The public names that a class's own body gives it: fields, constants, properties, methods.

    What it inherits is counted where it is written, and what a method assigns to `self` is state.
    """
    found = {one.name for one in node.body if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)}
    found |= {one.target.id for one in node.body if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name)}
    found |= {target.id for one in node.body if isinstance(one, ast.Assign) for target in one.targets if isinstance(target, ast.Name)}
    return {name for name in found if not name.startswith("_")}


def test_files_can_be_taken_in_at_once():
    assert {path.name: count for path in FILES if (count := len(path.read_text().splitlines())) > MOST_LINES} == {}


def test_members_are_counted_by_hand():
    [one] = ast.parse(
        "class One(Base):\n    a: int\n    b = c = 1\n    _d = 2\n    @property\n    def e(self): self.f = 1\n    @e.setter\n    def e(self, to): ...\n"
    ).body
    assert members(one) == {"a", "b", "c", "e"}


def test_no_class_has_many_members():
    found = {f"gemmgen/{path.relative_to(PACKAGE)}: {node.name}": len(members(node))
             for path in FILES for node in nodes(path) if isinstance(node, ast.ClassDef)}
    assert {name for name, count in found.items() if count > MOST_MEMBERS} == {*LARGE}, found
    assert len(all_decisions()) <= MOST_MEMBERS  # the fields that a plan has of them
