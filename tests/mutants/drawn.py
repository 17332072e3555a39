"""Draws single faults from the program's own text: Python by its syntax tree, templates by patterns of C.

A change is a place in a file and the text that takes its place. Nothing of this project is imported, so the same text and seed draw
the same faults on every machine.
"""

from __future__ import annotations

import ast
import fnmatch
import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

NEWER = ("api", "kinds", "library", "workshop", "catalog", "views", "verify", "run", "export")
"""Rooms of gemmgen/ whose files are drawn from twice as often as others."""
NOT_C = (".md.j2", ".txt.j2", ".toml.j2", ".pc.j2", ".cmake.j2")
"""Ends of templates whose text is no program."""


@dataclass(frozen=True)
class Change:
    """A fault in a text.

    Attributes:
        operator: what kind of change it is.
        line, last: the lines of the changed text, from 1; an executed one of them shows that the text was executed.
        start, end: offsets in the text's UTF-8.
        new: what stands there instead.
        body: first and last line of the function whose default it is.
        names: of what is assigned where the text is executed at import.
    """

    operator: str
    line: int
    last: int
    start: int
    end: int
    new: str
    body: tuple[int, int] | None = None
    names: tuple[str, ...] = ()

    def applied(self, text: str) -> str:
        data = text.encode()
        return (data[:self.start] + self.new.encode() + data[self.end:]).decode()


# ---- Python

COMPARED = {
    ast.Lt: ("<", "<="), ast.LtE: ("<=", "<"), ast.Gt: (">", ">="), ast.GtE: (">=", ">"), ast.Eq: ("==", "!="), ast.NotEq: ("!=", "=="),
    ast.In: ("in", "not in"), ast.NotIn: (r"not\s+in", "in"), ast.Is: ("is", "is not"), ast.IsNot: (r"is\s+not", "is"),
}
OTHER = {"min": "max", "max": "min", "any": "all", "all": "any"}
_SWAP_IS_NONE = {*OTHER, "isinstance", "issubclass", "getattr", "hasattr", "setattr"}
_PROSE = {"help", "remedy", "needs", "got", "title", "description", "metavar"}
_UNSEEN_FUNCTIONS = {"__repr__", "__str__"}
_NO_PROGRAM = {"annotation", "returns", "decorator_list", "type_params"}


@dataclass
class _Python:
    """Collects the changes of a module."""

    text: str
    changes: list[Change] = field(default_factory=list)

    def __post_init__(self):
        self.data, tree = self.text.encode(), ast.parse(self.text)
        self.starts = [0, *(match.end() for match in re.finditer(b"\n", self.data))]
        self.keys = [names for node in ast.walk(tree) if isinstance(node, ast.Dict)
                     if len(names := [key.value for key in node.keys if isinstance(key, ast.Constant) and isinstance(key.value, str)]) > 1]
        self.statement: ast.stmt | None = None
        self.functions: list[ast.AST] = []
        self.default_of: ast.AST | None = None
        self.assigned: list[set[str]] = [set()]
        self.visit(tree)

    def at(self, node: ast.AST) -> tuple[int, int]:
        return self.starts[node.lineno - 1] + node.col_offset, self.starts[node.end_lineno - 1] + node.end_col_offset

    def source(self, node: ast.AST) -> str:
        return self.data[slice(*self.at(node))].decode()

    def add(self, operator: str, node: ast.AST, new: str, span: tuple[int, int] | None = None) -> None:
        start, end = span or self.at(node)
        body, names = None, ()
        if self.default_of is not None:
            function = self.default_of
            inner = function.body if isinstance(function.body, list) else [function.body]
            body = inner[0].lineno, inner[-1].end_lineno
        elif not self.functions and isinstance(self.statement, (ast.Assign, ast.AnnAssign)):
            targets = self.statement.targets if isinstance(self.statement, ast.Assign) else [self.statement.target]
            names = tuple(one.id for target in targets for one in ast.walk(target) if isinstance(one, ast.Name))
        self.changes.append(Change(operator, node.lineno, node.end_lineno, start, end, new, body, names))

    def between(self, operator: str, node: ast.AST, left: ast.AST, right: ast.AST, pattern: str, new: str) -> None:
        """Changes the first match of a pattern between two nodes."""
        start, end = self.at(left)[1], self.at(right)[0]
        if match := re.search(pattern, self.data[start:end].decode()):
            gap = self.data[start:end].decode()
            before = len(gap[:match.start()].encode())
            if "#" not in gap:
                self.add(operator, node, new, (start + before, start + before + len(match[0].encode())))

    def visit(self, node: ast.AST) -> None:
        if isinstance(node, (ast.JoinedStr, ast.Import, ast.ImportFrom)) or isinstance(node, ast.keyword) and node.arg in _PROSE:
            return
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name in _UNSEEN_FUNCTIONS:
            return
        if isinstance(node, ast.If) and self.source(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING", '__name__ == "__main__"'):
            return
        if isinstance(node, ast.Call) and self.source(node.func).endswith(("Error", "Warning", "Refusal")):
            return
        before = self.statement
        if isinstance(node, ast.stmt):
            self.statement = node
            self.drop(node)
        if not isinstance(node, ast.Raise):  # its text is a message
            if operator := getattr(self, f"_{type(node).__name__}", None):
                operator(node)
            self.inner(node)
        if isinstance(node, ast.stmt):
            self.statement = before

    def inner(self, node: ast.AST) -> None:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            self.default_of, outer = node, self.default_of
            for default in filter(None, [*node.args.defaults, *node.args.kw_defaults]):
                if isinstance(default, ast.Constant) and isinstance(default.value, bool):
                    self.add("default", default, str(not default.value))
                self.visit(default)
            self.default_of = None
            self.functions.append(node)
            self.assigned.append({argument.arg for argument in [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]})
            for child in node.body if isinstance(node.body, list) else [node.body]:
                self.visit(child)
            self.functions.pop()
            self.assigned.pop()
            self.default_of = outer
            return
        for name, value in ast.iter_fields(node):
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST) and name not in _NO_PROGRAM:
                    self.visit(child)

    def drop(self, node: ast.stmt) -> None:
        """The statement dropped, where what follows can do without."""
        if not self.functions:
            return
        if isinstance(node, ast.If):
            if not node.orelse and isinstance(node.body[-1], (ast.Raise, ast.Return, ast.Continue, ast.Break)) and self.source(node).startswith("if"):
                self.add("guard", node, "pass")
            return
        names = {one.id for target in getattr(node, "targets", ()) for one in ast.walk(target) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)}
        again = isinstance(node, ast.Assign) and names <= self.assigned[-1]
        self.assigned[-1] |= names
        if again or isinstance(node, (ast.AugAssign, ast.Continue, ast.Break)) or isinstance(node, ast.Expr) and isinstance(node.value, (ast.Call, ast.Await)):
            self.add("statement", node, "pass")

    def condition(self, test: ast.expr) -> None:
        if not isinstance(test, ast.Constant):
            turned = self.source(test.operand) if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not) else f"not ({self.source(test)})"
            self.add("condition", test, turned)

    def _If(self, node: ast.If) -> None:
        self.condition(node.test)

    _While = _IfExp = _If

    def _comprehension(self, node: ast.comprehension) -> None:
        for test in node.ifs:
            self.condition(test)

    def _Compare(self, node: ast.Compare) -> None:
        for left, operator, right in zip([node.left, *node.comparators], node.ops, node.comparators):
            pattern, new = COMPARED[type(operator)]
            self.between("comparison", node, left, right, pattern, new)

    def _BinOp(self, node: ast.BinOp) -> None:
        texts = any(isinstance(side, (ast.JoinedStr, ast.List, ast.Tuple)) or isinstance(side, ast.Constant) and isinstance(side.value, (str, bytes))
                    for side in (node.left, node.right))
        if isinstance(node.op, (ast.Add, ast.Sub)) and not texts:
            pattern, new = (r"\+", "-") if isinstance(node.op, ast.Add) else ("-", "+")
            self.between("arithmetic", node, node.left, node.right, pattern, new)

    def _BoolOp(self, node: ast.BoolOp) -> None:
        pattern, new = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
        self.between("and, or", node, node.values[0], node.values[1], rf"\b{pattern}\b", new)

    def _Constant(self, node: ast.Constant) -> None:
        if type(node.value) is int:
            hexadecimal = self.source(node)[:2].lower() == "0x"
            operator = "default" if self.default_of is not None else "constant"
            self.add(operator, node, hex(node.value + 1) if hexadecimal else str(node.value + 1))

    def _AnnAssign(self, node: ast.AnnAssign) -> None:
        if isinstance(node.value, ast.Constant) and isinstance(node.value.value, bool) and not self.functions:
            self.add("default", node.value, str(not node.value.value))

    def _Return(self, node: ast.Return) -> None:
        value = node.value
        if isinstance(value, ast.Tuple) and len(value.elts) > 1 and self.source(value.elts[0]) != self.source(value.elts[1]):
            self.swap("returned", *value.elts[:2])
        sides = [value.left, value.right] if isinstance(value, ast.BinOp) else [value.values[0], value.values[-1]] if isinstance(value, ast.BoolOp) else [
            value.body, value.orelse] if isinstance(value, ast.IfExp) else []
        for side in sides:
            self.add("returned", value, f"({self.source(side)})")

    def swap(self, operator: str, first: ast.expr, second: ast.expr) -> None:
        between = self.data[self.at(first)[1]:self.at(second)[0]].decode()
        span = self.at(first)[0], self.at(second)[1]
        whole = ast.copy_location(ast.Pass(), first)
        whole.end_lineno = second.end_lineno
        if "#" not in between:
            self.add(operator, whole, self.source(second) + between + self.source(first), span)

    def _Call(self, node: ast.Call) -> None:
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        if name in OTHER:
            self.add("min, max" if name in ("min", "max") else "any, all", node.func, OTHER[name])
        if len(node.args) > 1 and name not in _SWAP_IS_NONE and not any(isinstance(one, (ast.Starred, ast.GeneratorExp)) for one in node.args[:2]):
            if self.source(node.args[0]) != self.source(node.args[1]):
                self.swap("arguments", *node.args[:2])
        if isinstance(node.func, ast.Attribute) and node.func.attr in ("get", "pop") and node.args:
            self.key(node.args[0])

    def _Subscript(self, node: ast.Subscript) -> None:
        if isinstance(node.slice, ast.Slice):
            for bound in filter(None, (node.slice.lower, node.slice.upper)):
                if not isinstance(bound, ast.Constant):
                    self.add("index", bound, f"({self.source(bound)}) + 1")
        self.key(node.slice)

    def key(self, node: ast.expr) -> None:
        """Another key of a dict of the same module that has this one."""
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            for names in self.keys:
                if node.value in names and len({*names}) > 1:
                    other = next(name for name in names[names.index(node.value) + 1:] + names if name != node.value)
                    self.add("key", node, repr(other))
                    return


def python_changes(text: str) -> list[Change]:
    """Every change of a module."""
    data = text.encode()
    return [change for change in _Python(text).changes if change.new.encode() != data[change.start:change.end]]


def compiles(file: str, text: str) -> bool:
    """Whether a changed file can still be read; of templates the run itself tells."""
    try:
        compile(text, file, "exec", dont_inherit=True) if file.endswith(".py") else None
    except (SyntaxError, ValueError):
        return False
    return True


# ---- templates

_TAG = re.compile(r"<%.*?%>|\$\{.*?\}", re.S)
_COMMENTS = re.compile(r"<#.*?#>|/\*.*?\*/|^[ \t]*%#[^\n]*|(?<![:\w])//[^\n]*", re.S | re.M)
_STRING = re.compile(r'"(?:[^"\\\n]|\\.)*"')
_BARRIER = re.compile(r"__sync|barrier|fence|\bwait|_wait|bar\.sync|waitcnt|\bcommit")
_NEXT = {"m": "n", "n": "k", "k": "m", "lda": "ldb", "ldb": "ldc", "ldc": "lda"}
_C = (
    ("comparison", r"(?<= )(<=|>=|<|>|==|!=)(?= )", {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "=="}),
    ("arithmetic", r"(?<=[\w)\]}] )([+-])(?= [\w(*&$])", {"+": "-", "-": "+"}),
    ("and, or", r"&&|\|\|", {"&&": "||", "||": "&&"}),
    ("extents", r"(?<![\w\\])(m|n|k)\b(?![(\"'])", _NEXT),
    ("leading dimensions", r"\bld[abc]\b", _NEXT),
    ("constant", r"(?<![\w.%$#\"'-])\d+(?=u?\b)(?![.\w\"'-]*[.\"'])", None),
)
_LOGIC = (("comparison", *_C[0][1:]), ("and, or", r"(?<= )(and|or)(?= )", {"and": "or", "or": "and"}), ("constant", *_C[5][1:]))


def _blank(text: str, pattern: re.Pattern, keep: Sequence[tuple[int, int]] = ()) -> str:
    """The text with what matches as blanks, but for matches that begin in one of the spans."""
    return pattern.sub(lambda match: match[0] if any(a <= match.start() < b for a, b in keep) else re.sub(r"[^\n]", " ", match[0]), text)


def template_changes(text: str, python: bool = False) -> list[Change]:
    """Every change of a template's C, and of the comparisons, `and`, `or` and numbers of its own statements."""
    tags = [match.span() for match in _TAG.finditer(text)] + [match.span() for match in re.finditer(r"^[ \t]*%%[^\n]*", text, re.M)]
    bare = _blank(text, _COMMENTS, tags)
    if python:
        bare = _blank(_blank(bare, re.compile(r'"""[\s\S]*?"""|(?<=\s)#[^\n]*'), tags), re.compile(r"^[ \t]*raise[^\n]*", re.M))
    c = _blank(bare, _STRING, tags)
    logic = [span for span in tags if not text[span[0]:span[1]].startswith("$")]
    for a, b in logic:
        c = c[:a] + re.sub(r"[^\n]", " ", c[a:b]) + c[b:]
    found: list[Change] = []

    def add(operator: str, start: int, end: int, new: str) -> None:
        line = text.count("\n", 0, start) + 1
        a, b = len(text[:start].encode()), len(text[:end].encode())
        found.append(Change(operator, line, line, a, b, new))

    for operator, pattern, others in _C:
        for match in re.finditer(pattern, c):
            if not _directive(c, match.start()):
                add(operator, *match.span(), others[match[0]] if others else str(int(match[0]) + 1))
    for a, b in logic:
        for operator, pattern, others in _LOGIC if re.match(r"(?:%%|<%-?)\s*(?:if|elif|for|set)\b", text[a:b].lstrip()) else ():
            for match in re.finditer(pattern, _blank(text[a:b], _STRING)):
                add(operator, a + match.start(), a + match.end(), others[match[0]] if others else str(int(match[0]) + 1))
    for match in re.finditer(r"(?<=\w)\[([^\[\]\n;]*[a-z][^\[\]\n;]*)\](?! *[({])", c):
        if re.search(r"(?<![\w.{])[a-z]\w*(?![\w(])", re.sub(r"\$\{[^}]*\}", "", match[1])) and not re.match(r"\s*(?:&|=)", match[1]):
            add("index", match.end() - 1, match.end() - 1, " + 1")
    place = 0
    for line, raw in zip(c.split("\n"), text.split("\n")):
        begins = place + len(line) - len(line.lstrip())
        if not python and (guard := re.match(r"\s*(?:\} else )?if (?:constexpr )?\(", line)):
            if (close := _closing(line, guard.end() - 1)) is not None:
                rest = line[close + 1:].strip()
                if rest.startswith(("return", "continue", "break")) and rest.endswith(";"):
                    add("guard", begins, place + len(line.rstrip()), ";")
                elif rest and "else" not in line:
                    add("guard", place + guard.end(), place + close, "1")  # C has no `true` of its own
        elif _BARRIER.search(raw) and line.strip().endswith(";") and re.match(r"\s*(?:[\w:.>-]|\$\{[^}]*\})+\(.*\);\s*$", line) and "return" not in line:
            add("barrier", begins, place + len(line.rstrip()), ";")
        place += len(raw) + 1
    return list(dict.fromkeys(found))


def _directive(text: str, at: int) -> bool:
    return text[text.rfind("\n", 0, at) + 1:at].lstrip().startswith(("#include", "#pragma", "#define", "#error", "#line"))


def _closing(line: str, at: int) -> int | None:
    """Where the bracket at a place closes."""
    deep = 0
    for place in range(at, len(line)):
        deep += {"(": 1, ")": -1}.get(line[place], 0)
        if not deep:
            return place
    return None


# ---- the draw


def room_of(file: str) -> str:
    """The room that a file is of: its folder or module of gemmgen/, or templates."""
    parts = Path(file).with_suffix("").parts
    return parts[1] if parts[0] == "gemmgen" else parts[0]


def program(root: Path) -> list[str]:
    """The files that faults are drawn from."""
    paths = [*sorted((root / "gemmgen").rglob("*.py")), *sorted((root / "gemmgen").rglob("*.j2")), *sorted((root / "templates").rglob("*.j2"))]
    names = [str(path.relative_to(root)) for path in paths]
    return [name for name in names if not name.endswith(NOT_C) and name != "gemmgen/cache.py"]


def changes_of(file: str, text: str) -> list[Change]:
    return python_changes(text) if file.endswith(".py") else template_changes(text, python=".py." in file)


def draw(root: Path, count: int, seed: int, rooms: Sequence[str] = (), files: str = "*") -> Iterator[tuple[str, Change]]:
    """Faults of the files of a tree in turn, each kind of change as often as another; fewer where the files have no more.

    Args:
        rooms: only those of these rooms; all where it is empty.
        files: only those of files whose path this pattern matches.
    """
    luck, left = random.Random(seed), {}
    names = [name for name in program(root) if (not rooms or room_of(name) in rooms) and fnmatch.fnmatch(name, files)]
    while count > 0 and names:
        deck = [name for name in names for _ in range(1 + (name.startswith("gemmgen/") and room_of(name) in NEWER))]
        luck.shuffle(deck)
        for name in deck[:count]:
            if name not in left:
                left[name] = {}
                for change in changes_of(name, (root / name).read_text()):
                    left[name].setdefault(change.operator, []).append(change)
            if kinds := left[name]:
                operator = luck.choice(sorted(kinds))
                change = kinds[operator].pop(luck.randrange(len(kinds[operator])))
                if not kinds[operator]:
                    del kinds[operator]
                if compiles(name, change.applied((root / name).read_text())):
                    count -= 1
                    yield name, change
        names = [name for name in names if left.get(name) != {}]
