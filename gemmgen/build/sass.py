"""NVIDIA's machine code as text, from nvdisasm, and its instructions.

    for function in functions(disassemble(binary.code)):
        for instruction in function.instructions: ...

The wheel `nvidia-cuda-nvdisasm` (5 MB) brings nvdisasm; it needs no GPU and no toolkit. NVIDIA does not document the instructions.
"""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from gemmgen.errors import BuildError

_INSTRUCTION = re.compile(r"\s+/\*([0-9a-f]{4,})\*/\s+(?:@(!?U?P(?:\d|T)) )?\s*([A-Z0-9_.]+)\s*([^;]*?)\s*;")
_LABEL = re.compile(r"([.$\w]+):$")
_LINE = re.compile(r'\s*//## File ".*", line (\d+)')
_TARGET = re.compile(r"`\(([^)]+)\)")
_TARGETS = re.compile(r'"BRANCH_TARGETS ([^"]+)"')
_COMMENT = re.compile(r"\s*\(\*.*\*\)")


@dataclass(frozen=True, slots=True)
class Instruction:
    """
    Attributes:
        address: bytes from the kernel's beginning.
        guard: the predicate under which a thread executes it, as `!P0`; empty without one.
        name: the operation with its modifiers, as `BAR.SYNC.DEFER_BLOCKING`.
        operands: as written; the targets of a branch are not among them.
        targets: labels that it may go to.
        line: the source line; 0 where the cubin has none.
    """

    address: int
    guard: str
    name: str
    operands: tuple[str, ...]
    targets: tuple[str, ...]
    line: int

    @property
    def operation(self) -> str:
        """The name without its modifiers."""
        return self.name.partition(".")[0]

    def __str__(self) -> str:
        return " ".join(filter(None, ("@" + self.guard if self.guard else "", self.name, ", ".join((*self.operands, *self.targets)))))


@dataclass(frozen=True)
class Function:
    """A kernel, with the functions that it calls behind it.

    Attributes:
        labels: where each label stands, as an index of `instructions`.
    """

    name: str
    instructions: tuple[Instruction, ...] = field(repr=False)
    labels: Mapping[str, int] = field(repr=False)


def find_disassembler() -> Path:
    """nvdisasm: `$GEMMGEN_NVDISASM`, else that of the wheel, else a toolkit's (`$CUDA_HOME`, `$CUDA_PATH`, /usr/local/cuda).

    Raises:
        BuildError: there is none.
    """
    if asked := os.environ.get("GEMMGEN_NVDISASM"):
        candidates = [Path(asked).expanduser().absolute()]
    else:
        wheels = importlib.util.find_spec("nvidia")
        folders = [Path(folder, "cu13") for folder in (wheels.submodule_search_locations or ()) if folder] if wheels else []
        toolkits = [os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda"]
        candidates = [folder / "bin/nvdisasm" for folder in (*folders, *(Path(toolkit) for toolkit in toolkits if toolkit))]
    for path in candidates:
        if path.is_file():
            return path
    raise BuildError(
        "nvdisasm", "was not found; it prints NVIDIA's machine code", got=asked, needs="nvdisasm of CUDA 13, which knows all architectures of gemmgen",
        remedy="pip install nvidia-cuda-nvdisasm, or set GEMMGEN_NVDISASM to an nvdisasm",
    )


def disassemble(cubin: bytes) -> str:
    """A cubin's code as nvdisasm prints it, with labels, and with source lines where the cubin has them.

    Raises:
        BuildError: there is no nvdisasm, or it refuses the cubin.
    """
    tool = find_disassembler()
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        done = subprocess.run([tool, "-g", "-c", file.name], capture_output=True, text=True, check=False)
    if done.returncode:
        raise BuildError(
            "nvdisasm", "refused a cubin", got=(done.stderr or done.stdout).strip().replace(file.name, "the cubin"),
            needs="a cubin of an architecture that it knows", remedy="pip install --upgrade nvidia-cuda-nvdisasm",
        )
    return done.stdout


def functions(text: str) -> Iterator[Function]:
    """The kernels of what nvdisasm printed.

    Raises:
        BuildError: a line with an address is no instruction, or a branch goes to no label.
    """
    name, found, labels, line = "", [], {}, 0
    for row in text.splitlines():
        if row.startswith("\t.section\t"):
            if found:
                yield _whole(name, found, labels)
            name, found, labels = row.split("\t")[2].split(",")[0].removeprefix(".text."), [], {}
        elif at := _LINE.match(row):
            line = int(at[1])
        elif label := _LABEL.match(row):
            labels[label[1]] = len(found)
        elif row.lstrip().startswith("/*"):
            found.append(_instruction(row, line))
    if found:
        yield _whole(name, found, labels)


def _instruction(row: str, line: int) -> Instruction:
    parts = _INSTRUCTION.match(row)
    if parts is None:
        raise BuildError("nvdisasm", "a line of its text is no instruction that gemmgen reads", got=row.strip(), remedy="nvidia-cuda-nvdisasm 13.5")
    address, guard, name, rest = parts.groups(default="")
    listed = _TARGETS.search(rest)
    targets = tuple(listed[1].split(",")) if listed else tuple(_TARGET.findall(rest))
    operands = (one.strip() for one in _TARGET.sub("", _COMMENT.sub("", rest)).split(","))
    return Instruction(int(address, 16), guard, name, tuple(one for one in operands if one), targets, line)


def _whole(name: str, found: list[Instruction], labels: dict[str, int]) -> Function:
    for one in found:
        if strange := [target for target in one.targets if target not in labels and target != name]:
            raise BuildError(f"kernel {name}", "a branch goes to no label of its text", got=strange[0], needs="a whole text of nvdisasm -c",
                             remedy="nvdisasm -g -c")
    return Function(name, tuple(found), labels)
