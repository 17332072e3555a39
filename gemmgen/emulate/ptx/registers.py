"""The register file of warps, and registers that a matrix instruction in flight still has.

A register is a vector `[lanes]` of whatever type it was last written as, or a
0-d constant. A wgmma, or a load from tensor memory, has its registers until a wait covers it: until then reading
what it writes, or writing what it reads or writes, is a fault. Compilers give a register in flight another name (`Registers.rename`); to take the last
name from what it holds is a fault, too.
"""

from __future__ import annotations

import numpy as np

from gemmgen.emulate.core.memory import Fault

_F32 = np.dtype(np.float32)
_STORAGE = 1 << 32


class _Unset:
    """What a register holds before it is written: any use of it is a fault."""

    def __getattr__(self, name: str):
        raise Fault("a register is read before it was written")


_UNSET = _Unset()


class InFlight:
    """A register that a matrix instruction still works on.

    Attributes:
        data: `[lanes]`, what it will hold.
        groups: `[lanes]` int32, the group of matrix instructions that has it, -1 for none.
        written: whether those instructions write it; else they only read it. `[lanes]` where lanes differ.
        load: whether they are loads from tensor memory.
        stamp: where it is kept times `_STORAGE`, plus the number of the write: what adds to it keeps it in place, under whichever name.
            `[lanes]` int64 where lanes differ, -1 for what no instruction in flight writes.
    """

    __slots__ = ("data", "groups", "written", "load", "stamp")  # there is one for each register of each product
    dtype = None  # unlike any register's: `Registers.get` looks twice

    def __init__(self, data: np.ndarray, groups: np.ndarray, written: bool | np.ndarray, load: bool = False, stamp: int | np.ndarray = -1):
        self.data, self.groups, self.written, self.load, self.stamp = data, groups, written, load, stamp

    @property
    def by(self) -> str:
        return "tcgen05.ld" if self.load else "wgmma"

    @property
    def wait(self) -> str:
        return "tcgen05.wait::ld" if self.load else "a wgmma.wait_group that covers it"


class Registers:
    """The registers of a warp vector.

    Args:
        lanes: length of the vectors.
        slots: registers of each lane.

    Attributes:
        r: the register file, a vector (or 0-d constant) for each slot.
        active: the lanes that execute the instruction at hand, None for all.
        finished: `[lanes]`, groups of matrix instructions known to be complete; loaded: loads from tensor memory.
    """

    def __init__(self, lanes: int, slots: int):
        self.lanes, self._shape = lanes, (lanes,)
        self.r: list = [_UNSET] * slots
        self.active: np.ndarray | None = None
        self.finished, self.loaded = np.zeros(lanes, np.int32), np.zeros(lanes, np.int32)
        self._writes = 0

    def put(self, slot: int, value: np.ndarray, mask: np.ndarray | None) -> None:
        """Write a register in the lanes of the mask; slot -1 is the sink."""
        if slot < 0:
            return
        if value.shape != self._shape:
            value = value.repeat(self.lanes) if not value.ndim else np.broadcast_to(value, self.lanes)  # a tenth of the time
        old = self.r[slot]
        if old.__class__ is InFlight:
            value, mask = self._beside(old, value, mask), None
        if mask is not None and old is not _UNSET:  # of what was never written, lanes outside the mask hold nothing the program may rely on
            value = np.where(mask, value, old.view(value.dtype))
        self.r[slot] = value

    def get(self, slot: int, dtype: np.dtype) -> np.ndarray:
        """A register's lanes as `dtype`; of a wider register its low part."""
        value = self.r[slot]
        if value.dtype is dtype:
            return value
        if value.dtype is None:
            value = self._landed(slot, value)
        return reinterpret(value, dtype)

    def written(self, slot: int) -> bool:
        """Whether any instruction wrote the register."""
        return self.r[slot] is not _UNSET

    def full(self, slot: int, dtype: np.dtype) -> np.ndarray:
        """`get`, with a constant spread over all lanes."""
        value = self.get(slot, dtype)
        return value if value.ndim else np.broadcast_to(value, self.lanes)

    # ---- registers of matrix instructions in flight
    def _flying(self, value: InFlight) -> np.ndarray:
        """`[lanes]` bool: those that a wait must still cover."""
        return value.groups >= (self.loaded if value.load else self.finished)

    def _landed(self, slot: int, value: InFlight) -> np.ndarray:
        """What an instruction reads from a register that was in flight."""
        flying = self._flying(value)
        if not flying.any():
            self.r[slot] = value.data
        elif (wrong := (flying if self.active is None else flying & self.active) & value.written).any():
            raise Fault(
                f"a register is read that a {value.by} may not have written yet",
                lane=int(np.argmax(wrong)),
                needs=value.wait,
            )
        return value.data

    def _beside(self, old: InFlight, value: np.ndarray, mask: np.ndarray | None) -> np.ndarray | InFlight:
        """A register after lanes whose matrix instructions are complete wrote it."""
        flying = self._flying(old)
        self._refuse(old, flying if mask is None else flying & mask)
        if mask is None:
            return value
        data = old.data.view(value.dtype).copy()
        np.copyto(data, value, where=mask)
        return InFlight(data, np.where(mask, -1, old.groups), old.written, old.load, np.where(mask, -1, old.stamp)) if flying.any() else data

    def _refuse(self, old: InFlight, wrong: np.ndarray) -> None:
        """Of a write to a register in flight: a fault if it is one in any lane."""
        if wrong.any():
            lane = int(np.argmax(wrong))
            done = "written" if np.broadcast_to(old.written, self.lanes)[lane] else "read"
            raise Fault(f"a register is written that a {old.by} may not have {done} yet", lane=lane, needs=old.wait)

    def fly(self, slot: int, value: np.ndarray | None, groups: np.ndarray, mask: np.ndarray | None, load: bool = False) -> np.ndarray:
        """Hand a register to a group of matrix instructions, with what they make of it.

        Args:
            value: `[lanes]`, None when they only read it.
            groups: `[lanes]`, the group of each lane.
            load: whether it is a load from tensor memory.

        Returns:
            `[lanes]`, what it holds from now on.
        """
        old = self.r[slot]
        flown = old.__class__ is InFlight
        data = old.data if flown else old
        if value is None:
            if flown:
                self._landed(slot, old)
            self.r[slot] = InFlight(data, groups if mask is None else np.where(mask, groups, -1), False)
            return data
        before = old.groups if flown else -1
        stamp = self._stamped(old.stamp if flown else -1, mask)
        if mask is not None:
            data = np.zeros(self.lanes, value.dtype) if data is _UNSET else data.view(value.dtype).copy()
            np.copyto(data, value, where=mask)
            value, groups = data, np.where(mask, groups, before)
        self.r[slot] = InFlight(value, groups, True, load, stamp)
        return value

    def _stamped(self, before: int | np.ndarray, mask: np.ndarray | None) -> int | np.ndarray:
        """The stamp of a write to a register that has the stamp `before`: in its place, or in a new one."""
        self._writes += 1
        fresh = self._writes * (_STORAGE + 1)
        if mask is None and before.__class__ is int:
            return fresh if before < 0 else before - before % _STORAGE + self._writes
        stamp = np.where(np.less(before, 0), fresh, before - before % _STORAGE + self._writes)
        return stamp if mask is None else np.where(mask, stamp, before)

    def accumulator(self, slot: int, dtype: np.dtype = _F32) -> np.ndarray | None:
        """A register as the next matrix instruction reads it, in flight or not; None if never written."""
        value = self.r[slot]
        if value is _UNSET:
            return None
        if value.__class__ is InFlight:
            if value.written is not True:
                flying = self._flying(value) & np.logical_not(value.written)
                self._refuse(value, flying if self.active is None else flying & self.active)
            value = value.data
        return value if value.dtype is dtype else reinterpret(value, dtype)

    def rename(self, target: int, slot: int, mask: np.ndarray | None) -> bool:
        """`mov` of a register in flight, or of one never written: the compiler renames
        registers without knowing that a matrix instruction still has them.

        Returns:
            Whether it was one; else nothing is done.

        Raises:
            Fault: the target is in flight itself, and what it holds has no other name.
        """
        value = self.r[slot]
        if value.__class__ is not InFlight:
            if value is _UNSET and mask is None and target >= 0:
                self.r[target] = value
            return value is _UNSET
        if not (self._flying(value) & value.written).any():
            return False
        if target < 0:
            return True
        old = self.r[target]
        flown = old.__class__ is InFlight
        if flown and old is not value:
            self._refuse(old, self._nameless(target, old, value, mask))
        if mask is None:
            self.r[target] = value
            return True
        groups, stamp = (old.groups, old.stamp) if flown else (-1, -1)
        data, written = (old.data, old.written) if flown else (old, True)
        data = np.zeros(self.lanes, value.data.dtype) if data is _UNSET else data.view(value.data.dtype).copy()
        np.copyto(data, value.data, where=mask)
        written = True if written is value.written is True else np.where(mask, value.written, written)
        self.r[target] = InFlight(data, np.where(mask, value.groups, groups), written, value.load, np.where(mask, value.stamp, stamp))
        return True

    def _nameless(self, target: int, old: InFlight, value: InFlight, mask: np.ndarray | None) -> np.ndarray:
        """`[lanes]` bool: where a matrix instruction in flight would lose the register that it reads or writes, as `value` takes its last name, `target`.

        A name that has it, or that an instruction has added to it under since, keeps it.
        """
        lost = self._flying(old) if mask is None else self._flying(old) & mask
        if not lost.any():
            return lost
        place = old.stamp // _STORAGE
        for other in (value, *(one for at, one in enumerate(self.r) if at != target and one.__class__ is InFlight)):
            lost = lost & ~np.logical_and(place == other.stamp // _STORAGE, np.logical_and(other.stamp >= old.stamp, old.written))
            if not lost.any():
                break
        return lost


def reinterpret(value: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """The bits of `value` as `dtype`, its low part when that is narrower."""
    have, want = value.dtype.itemsize, dtype.itemsize
    if have == want:
        return value.view(dtype)
    if have > want:
        return value.view(f"u{have}").astype(f"u{want}").view(dtype)
    raise Fault(f"a register of {have} bytes is read as {want} bytes")
