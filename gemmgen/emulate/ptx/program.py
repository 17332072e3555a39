"""An entry as the machine runs it: blocks of instructions, each bound to its function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from gemmgen.emulate.ptx.parse import Entry, Statement

Run = Callable[[Any, "np.ndarray | None"], "np.ndarray | None"]
"""What an instruction does to (the `Warp` that executes it, mask); a mask of None means all lanes. It returns
nothing, but for a wait, which returns the lanes that pass."""


class Instruction(NamedTuple):
    """A decoded statement.

    Attributes:
        run: its function, None for those that steer: branch, barrier, exit. That of
            a wait returns the lanes that pass, `[lanes]` bool, None for all.
        guard: slot of its predicate, -1 for none; negated: `@!p`.
        number: its index in the entry, for messages.
        others: the statements after it that run with it.
    """

    run: Run | None
    guard: int
    negated: bool
    statement: Statement
    number: int
    others: tuple[Statement, ...] = ()


@dataclass
class Block:
    """Instructions in a row, and how control leaves.

    Attributes:
        length: how many instructions those are in the program.
        end: `next`, `branch`, `table`, `exit`, `barrier`, `wait` or `trap`.
        last: the instruction that ends it, None for `next`.
        targets: block numbers; for a branch (taken,), for a table its entries.
        following: the block control falls into, -1 when there is none.
        barrier: slots of a barrier's (id, threads), threads 0 meaning all.
        selector: slot a table branch is indexed with.
    """

    code: Sequence[Instruction]
    length: int = 0
    end: str = "next"
    last: Instruction | None = None
    targets: tuple[int, ...] = ()
    following: int = -1
    barrier: tuple[int, int] = (0, 0)
    selector: int = -1


@dataclass
class Program:
    """An entry ready to run, which does not change any more: emulators of the same text share it.

    Attributes:
        slots: length of the register file.
        constants: slot -> 0-d array; specials: name of special register -> slot.
        blocks: in the order lanes are preferred in; block 0 is the entry.
        static_shared: bytes of its static shared variables; local: of those that each thread has for itself.
        reads_async: whether matrix instructions read shared memory by themselves.
        tensor_memory: whether they have their sums in tensor memory; cta_group: CTAs that share it, 0 where no instruction tells.
        publishes: whether a fence or a release may show its stores to other CTAs.
        param_offsets: name -> offset in the parameter bytes; param_bytes: their length.
    """

    entry: Entry
    slots: int = 0
    constants: dict[int, np.ndarray] = field(default_factory=dict)
    specials: dict[str, int] = field(default_factory=dict)
    blocks: list[Block] = field(default_factory=list)
    static_shared: int = 0
    local: int = 0
    reads_async: bool = False
    tensor_memory: bool = False
    cta_group: int = 0
    publishes: bool = False
    param_offsets: dict[str, int] = field(default_factory=dict)
    param_bytes: int = 0
