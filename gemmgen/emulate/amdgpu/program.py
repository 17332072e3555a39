"""A kernel as the machine runs it: blocks of instructions, each bound to its function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from gemmgen.emulate.amdgpu.assembly import Kernel, Statement
from gemmgen.emulate.amdgpu.target import Target

Run = Callable[[Any], None]
"""What an instruction does to the `Wave` that executes it."""


class Instruction(NamedTuple):
    """A decoded statement; `run` is None for those that steer."""

    run: Run | None
    statement: Statement


@dataclass
class Block:
    """Instructions in a row, and how control leaves.

    Attributes:
        length: how many those are in the program.
        end: `next`, `branch`, `barrier`, `wait`, `exit` or `trap`.
        condition: of a branch: `scc`, `vcc` or `exec`, with `n` where it is taken when that
            is set; empty for always.
        last: the instruction that ends it, None for `next`.
        target: block a branch leads to; following: the one control falls into; -1 for none.
    """

    code: Sequence[Instruction]
    length: int
    end: str = "next"
    condition: str = ""
    last: Instruction | None = None
    target: int = -1
    following: int = -1


@dataclass
class Program:
    """A kernel ready to run, which does not change any more: emulators of the same text share it.

    Its blocks are in the order waves are preferred in, block 0 the entry.
    """

    kernel: Kernel
    target: Target
    blocks: list[Block]
