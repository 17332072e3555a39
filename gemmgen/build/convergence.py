"""Whether the lanes of every warp are together where NVIDIA's machine code needs them together.

    for fault in apart(disassemble(binary.code)):
        print(fault)

Lanes that a branch sends different ways run apart until the code brings them together: BSYNC those that were together at its BSSY, WARPSYNC all. PTX requires
whole warps at `bar.sync`, `barrier.cluster`, `shfl.sync` and matrix instructions, and the compiler has to bring them together before each. PTX does not show
whether it did: a fault of the compiler is a race that only a GPU runs into, and not every time.

The analysis interprets the kernel's text abstractly. A state says whether the warp is whole, which barrier registers hold a whole warp, and which registers
have one value in all lanes. What depends on the lane may differ, and so may what is written while lanes are apart. The analysis may report a place at which
lanes are together after all; it misses none as far as it reads the instructions right. Threads that have exited count as present, as the hardware counts them,
and an instruction of a whole warp that reads one address of memory gives all lanes the same, as the compiler takes it, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache

from gemmgen.build.sass import Function, Instruction, functions
from gemmgen.errors import BuildError

_TOGETHER = {
    "BAR", "UCGABAR_ARV", "UCGABAR_WAIT", "SHFL", "MATCH", "WARPGROUP", "USETMAXREG",
    "HMMA", "IMMA", "DMMA", "QMMA", "OMMA", "HGMMA", "IGMMA", "QGMMA", "BGMMA", "LDSM", "STSM", "MOVM", "LDTM", "STTM",
}
"""Operations that need the whole warp. A thread alone may arrive at an mbarrier and issue a bulk copy. The compiler itself uses VOTE, REDUX and ELECT in loops
over the lanes that are there and in sums for atomics."""

_FLOW = {"BRA", "BRX", "BRXU", "EXIT", "CALL", "RET"}
_NO_RESULT = _FLOW | {
    "ST", "STG", "STS", "STAS", "RED", "REDG", "REDS", "LDGSTS", "STSM", "STTM",
    "BAR", "BSSY", "BSYNC", "BREAK", "WARPSYNC", "NANOSLEEP", "CCTL", "MEMBAR", "DEPBAR",
}
_TWO_RESULTS = {"ISETP", "FSETP", "DSETP", "HSETP2", "PLOP3", "PSETP"}
_PREDICATE_FIRST = {"LOP3", "SHFL", "ATOM", "ATOMG", "ATOMS", "MATCH", "ELECT", "LDG", "LD"}
_CARRIES = {"IADD3", "IMAD", "LEA", "VIADD", "R2UR"}
_DIFFER = {
    "LD", "LDSM", "LDTM", "ATOM", "ATOMG", "ATOMS", "MATCH", "ELECT", "MOVM", "R2P", "AL2P", "QSPC",
    "HMMA", "IMMA", "DMMA", "QMMA", "OMMA", "HGMMA", "IGMMA", "QGMMA", "BGMMA",
}
"""Operations whose results may differ from lane to lane whatever their operands are."""
_OF_LANES = ("SR_CLOCK", "SR_GLOBALTIMER", "SR_EQMASK", "SR_LEMASK", "SR_LTMASK", "SR_GEMASK", "SR_GTMASK")

_UNIFORM = "uniform"
"""A value that is the same in all lanes. An int is one that is known as well, and the place of a launch's parameter, `c[0x0][0x238]`, one that the launch
does not change. What has no value in a state may differ."""


@dataclass(frozen=True, slots=True)
class _Lanes:
    """base + something of the lane in [0, 2^bits) + offset, where base is the same in all lanes, a multiple of 2^bits, and small.

    Attributes:
        thread: it is threadIdx.x itself, the same value wherever it is read.
    """

    bits: int
    offset: int = 0
    thread: bool = False


@dataclass(frozen=True, slots=True)
class _Low:
    """Its lowest `bits` are the same in all lanes: a bool or a byte in a register."""

    bits: int


@dataclass(frozen=True, slots=True)
class _Own:
    """A number or parameter that a part of a warp was given while lanes were apart: until they are together again others may hold another."""

    number: int | str


_Value = str | int | _Lanes | _Low | _Own | None
_UNWRITTEN: dict[str, _Value] = {register: _UNIFORM for register in (*(f"R{number}" for number in range(256)), *(f"P{number}" for number in range(7)))}
"""What a kernel begins with: nothing depends on it."""


@dataclass(frozen=True)
class Fault:
    """An instruction that needs the whole warp and may be reached by a part of one.

    Attributes:
        kernel: its name.
        address: bytes from the kernel's beginning.
        instruction: as nvdisasm prints it.
        line: of the source; 0 where the cubin has none.
        branch: the address of a branch that sends lanes different ways before it, or its own where its guard does.
    """

    kernel: str
    address: int
    instruction: str
    line: int
    branch: int

    def __str__(self) -> str:
        return (f"kernel {self.kernel}, line {self.line}: a part of a warp may reach {self.instruction} at {self.address:#x}: "
                f"lanes part at {self.branch:#x}, and neither BSYNC nor WARPSYNC brings them together")


def apart(text: str) -> list[Fault]:
    """The instructions at which a warp that has to be whole may not be, of every kernel of what `nvdisasm -c` printed.

    Raises:
        BuildError: the text is not nvdisasm's, or a call goes through a pointer.
    """
    return [fault for function in functions(text) for fault in _Analysis(function).faults()]


@dataclass(frozen=True)
class _State:
    """
    Attributes:
        parted: None where the warp is whole; else the branch that parted it.
        whole_if: guards under which the warp is whole although it is parted.
        held: barrier registers that hold a whole warp, each with the BSSY that filled it.
        values: of registers, predicates and words of a thread's stack.
        guarded: of registers, where a guard holds.
    """

    parted: int | None = None
    whole_if: frozenset[str] = frozenset()
    held: Mapping[str, int] = field(default_factory=dict)
    values: Mapping[str, _Value] = field(default_factory=dict)
    guarded: Mapping[tuple[str, str], _Value] = field(default_factory=dict)

    def joined(self, other: _State) -> _State:
        """Where two ways meet."""
        parts = [one for one in (self, other) if one.parted is not None]
        values = {}
        for register, value in self.values.items():
            there = other.values.get(register)
            if value == there:
                values[register] = value
            elif value == _Own(there) or _Own(value) == there:  # a part of a warp has what all had
                values[register] = value if isinstance(value, _Own) else there
            elif isinstance(value, (str, int, _Low)) and isinstance(there, (str, int, _Low)):  # whole warps wrote both
                low = [one.bits for one in (value, there) if isinstance(one, _Low)]
                values[register] = _Low(min(low)) if low else _UNIFORM
        return _State(
            min((one.parted for one in parts), default=None),
            frozenset.intersection(*(one.whole_if for one in parts)) if parts else frozenset(),
            dict(self.held.items() & other.held.items()), values,
            {key: value for key, value in self.guarded.items() if other.guarded.get(key) == value},
        )


_Place = tuple[int, tuple[int, ...]]
"""An index of the instructions, and where the calls under way return to."""


class _Analysis:
    """The fixed point of the states at the beginnings of a kernel's blocks, for each way in which a function was called."""

    def __init__(self, function: Function):
        self.function, self.code = function, function.instructions
        self.parts = [_parts(one) for one in self.code]
        self.leaders = {function.labels[target] for one in self.code for target in one.targets if target in function.labels}
        self.broken: set[int] = set()
        """Each BSSY whose lanes may leave by BREAK while others stay: its BSYNC brings only those together that stayed."""

    def faults(self) -> Iterator[Fault]:
        while True:
            before, found = len(self.broken), self._fixed_point()
            if len(self.broken) == before:
                break
        for at, branch in sorted(found.items()):
            one = self.code[at]
            yield Fault(self.function.name, one.address, str(one), one.line, branch)

    def _fixed_point(self) -> dict[int, int]:
        """The instructions that need a whole warp and may not have it, each with the branch."""
        states: dict[_Place, _State] = {(0, ()): _State(values=_UNWRITTEN)}
        waiting, found = [(0, ())], {}
        while waiting:
            place = waiting.pop()
            for there, state in self._block(place, states[place], found):
                known = states.get(there)
                merged = state if known is None else known.joined(state)
                if merged != known:
                    states[there] = merged
                    if there not in waiting:
                        waiting.append(there)
        return found

    def _block(self, place: _Place, state: _State, found: dict[int, int]) -> Iterator[tuple[_Place, _State]]:
        """Runs a block. Gives the places to which it goes, with the states there."""
        at, calls = place
        now = _Run(state, self.broken)
        while True:
            one = self.code[at]
            if one.operation in _TOGETHER and not now.shares_a_ticket(one) and (branch := now.missing(one)) is not None:
                found.setdefault(at, branch)
                now._join()  # one fault is told once, and not at all that follows
            if one.operation in _FLOW:
                yield from self._ways(at, calls, one, now)
                return
            now.execute(at, one, *self.parts[at])
            at += 1
            if at == len(self.code):
                return
            if at in self.leaders:
                yield (at, calls), now.state()
                return

    def _ways(self, at: int, calls: tuple[int, ...], one: Instruction, now: _Run) -> Iterator[tuple[_Place, _State]]:
        following, targets = (at + 1, calls), [(self.function.labels[target], calls) for target in one.targets if target in self.function.labels]
        if one.operation == "EXIT":
            if one.guard:
                yield following, now.under(_negated(one.guard)).state()
        elif one.operation == "RET":
            if calls:
                yield (calls[-1], calls[:-1]), now.state()
        elif one.operation == "CALL" and not (one.targets and one.targets[0].startswith(".L")):  # such a label is the caller's own: a jump
            if len(targets) != 1 or len(calls) > 4 or one.guard:
                raise BuildError(f"kernel {self.function.name}", "calls in a way that gemmgen does not follow", got=str(one),
                                 needs="calls by name, at most four deep", remedy="functions that are inlined: GG_DEVICE")
            yield (targets[0][0], (*calls, at + 1)), now.state()
        elif one.name.startswith("BRA.DIV"):  # only where lanes are apart
            if now.parted is not None:
                yield targets[0], now.state()
            yield following, now.made_whole().state()
        elif one.name.startswith("BRA.CONV"):  # only where they are together
            yield targets[0], now.made_whole().state()
            if now.parted is not None:
                yield following, now.state()
        else:
            conditions = [condition for condition in (one.guard, *one.operands) if re.fullmatch(r"!?U?P\d", condition)]
            chosen_by = [one.operands[0].split()[0]] if one.operation == "BRX" else [] if ".U" in one.name else conditions
            after = now if all(now.same(register.lstrip("!")) for register in chosen_by) else now.parted_by(one)
            only = conditions[0] if len(conditions) == 1 else None
            for target in targets:
                yield target, (after.under(only) if only else after).state()
            if conditions:
                yield following, (after.under(_negated(only)) if only else after).state()


def _negated(guard: str) -> str:
    return guard[1:] if guard.startswith("!") else "!" + guard


class _Run:
    """A state that instructions change."""

    def __init__(self, state: _State, broken: set[int]):
        self.parted, self.whole_if, self.broken = state.parted, state.whole_if, broken
        self.held, self.values, self.guarded = dict(state.held), dict(state.values), dict(state.guarded)
        self.drawn: set[str] = set()
        """Registers that atomics of this block gave a value."""

    def state(self) -> _State:
        return _State(self.parted, self.whole_if, self.held, self.values, self.guarded)

    def parted_by(self, one: Instruction) -> _Run:
        run = _Run(self.state(), self.broken)
        run.parted = one.address if self.parted is None else self.parted
        return run

    def made_whole(self) -> _Run:
        run = _Run(self.state(), self.broken)
        run._join()
        return run

    def under(self, guard: str) -> _Run:
        """Where all lanes that come here have this predicate."""
        if self.parted is not None and guard not in self.whole_if:
            return self
        run = self.made_whole()
        run.values |= {register: value for (register, held), value in self.guarded.items() if held == guard}
        return run

    def same(self, register: str) -> bool:
        """Whether a register or predicate has one value in all lanes that are here."""
        return register[0] == "U" or register in ("PT", "RZ") or isinstance(self.values.get(register), (str, int, _Own))

    def missing(self, one: Instruction) -> int | None:
        """The branch, or the instruction's own guard, that leaves lanes out; None where the warp is whole."""
        if one.guard and not self.same(one.guard.lstrip("!")):
            return one.address if self.parted is None else self.parted
        return None if one.guard in self.whole_if else self.parted

    def shares_a_ticket(self, one: Instruction) -> bool:
        """Whether it is the compiler's own: one lane has drawn from an atomic for all that are there, and they read it."""
        return one.name == "SHFL.IDX" and one.operands[2] in self.drawn

    def execute(self, at: int, one: Instruction, results: tuple[str, ...], sources: tuple[str, ...]) -> None:
        if change := getattr(self, "_" + one.operation.lower(), None):
            change(at, one)
        elif results:
            self._write(one, results, self._value(one, sources))
        self._write_uniform(at, one)
        if one.operation.startswith("ATOM"):
            self.drawn |= set(results)
        if "R1" in results:
            self._forget_stack()

    def _write_uniform(self, at: int, one: Instruction) -> None:
        """Of uniform registers, which no lane has apart, only parameters of the launch are known, and only those that whole warps loaded."""
        if not one.operands or not re.match(r"U|P", one.operands[0]) or one.operation in _TWO_RESULTS:
            return
        for register in filter(re.compile(r"UR\d+$").match, one.operands):
            for number in range(4):  # no result is wider
                self.values.pop(f"UR{int(register[2:]) + number}", None)
        if one.name in ("ULDC", "LDCU", "UMOV") and not one.guard and self.parted is None:
            value = self._known(one.operands[1])
            if isinstance(value, (int, str)) and value != _UNIFORM:
                self.values[one.operands[0]] = value

    def _join(self) -> None:
        self.parted, self.whole_if = None, frozenset()
        self.values = {register: value.number if isinstance(value, _Own) else value for register, value in self.values.items()}

    def _bssy(self, at: int, one: Instruction) -> None:
        self.held.pop(one.operands[0], None)
        if self.parted is None and not one.guard:
            self.held[one.operands[0]] = at

    def _bsync(self, at: int, one: Instruction) -> None:
        filled = self.held.get(one.operands[0])
        if filled is not None and filled not in self.broken and not one.guard:
            self._join()

    def _break(self, at: int, one: Instruction) -> None:
        filled = self.held.pop(one.operands[0], None)
        if filled is not None and self.missing(one) is not None:
            self.broken.add(filled)

    def _bmov(self, at: int, one: Instruction) -> None:
        to, source = one.operands
        filled = self.held.get(source)
        for register in (to, source) if ".CLEAR" in one.name else (to,):
            self.held.pop(register, None)
        if filled is not None and not one.guard and to != "RZ":
            self.held[to] = filled
        self.values.pop(to, None)

    def _warpsync(self, at: int, one: Instruction) -> None:
        lanes = -1 if ".ALL" in one.name or not one.operands else self._known(one.operands[0])
        if self.parted is None or lanes not in (-1, 0xFFFFFFFF):
            return
        if not one.guard:
            self._join()
        elif self.same(one.guard.lstrip("!")):
            self.whole_if |= {one.guard}

    def _endcollective(self, at: int, one: Instruction) -> None:
        # Lanes come to the instructions before it from wherever they are, and go back there.
        self.parted = one.address if self.parted is None else self.parted

    def _forget_stack(self) -> None:
        self.values = {register: value for register, value in self.values.items() if register[0] != "["}

    def _stl(self, at: int, one: Instruction) -> None:
        words = _stack(one, one.operands[0])
        if not words:
            self._forget_stack()
        for number, word in enumerate(words):
            register = one.operands[1] if one.operands[1] == "RZ" else f"R{int(one.operands[1].removesuffix('.reuse')[1:]) + number}"
            self._write(one, (word,), self._known(register))

    def _ldl(self, at: int, one: Instruction) -> None:
        words, first = _stack(one, one.operands[1]), int(one.operands[0][1:]) if one.operands[0] != "RZ" else 0
        for number in range(_count(one)):
            self._write(one, (f"R{first + number}",), self.values.get(words[number]) if words else None)

    def _value(self, one: Instruction, sources: tuple[str, ...]) -> _Value:
        """What it writes, as if lanes were together."""
        operation = one.operation
        if operation in _DIFFER:
            return None
        if operation in ("S2R", "CS2R"):
            name = one.operands[1]
            if name in ("SR_TID.X", "SR_LANEID"):
                return _Lanes(5, thread=name == "SR_TID.X")
            return 0 if name == "SRZ" else None if name.startswith(_OF_LANES) else _UNIFORM
        if operation == "P2R":
            chosen = _number(sources[-1])
            saved = [f"P{bit}" for bit in range(7) if chosen is None or chosen >> bit & 1]
            return _UNIFORM if all(self.same(register) for register in (*saved, sources[1].removesuffix(".reuse"))) else None
        if operation in ("VOTE", "REDUX"):
            return _UNIFORM if self.missing(one) is None else None
        if operation == "SHFL":
            return _UNIFORM if ".IDX" in one.name and self.missing(one) is None and isinstance(self._known(one.operands[3]), (str, int)) else None
        values = [self._known(source, one.guard) for source in sources]
        if one.name in ("MOV", "LDC"):
            return values[0]
        if one.name.startswith(("IMAD.MOV", "IMAD.U32")) and values[:2] == [0, 0]:
            return values[2]
        if all(isinstance(value, (str, int)) for value in values):
            return _UNIFORM
        if operation == "PRMT":
            return _permuted(*values[:3])
        return _of_lanes(one, values)

    def _known(self, source: str, guard: str = "") -> _Value:
        """The value of an operand as written, to an instruction with this guard."""
        plain, known, registers = _read(source)
        if known is not None:
            return known
        if guard and (plain, guard) in self.guarded:
            return self.guarded[plain, guard]
        if plain in self.values:
            value = self.values[plain]
            return value.number if isinstance(value, _Own) else value
        return _UNIFORM if all(self.same(register) or guard and isinstance(self.guarded.get((register, guard)), (str, int)) for register in registers) else None

    def _write(self, one: Instruction, results: tuple[str, ...], value: _Value) -> None:
        if self.parted is not None and one.guard not in self.whole_if and not (isinstance(value, _Lanes) and value.thread):
            value = None if value == _UNIFORM else _Own(value) if isinstance(value, (int, str)) else None
        for register in results:
            given = value
            if self.guarded:
                self.guarded = {key: kept for key, kept in self.guarded.items() if register not in (key[0], key[1].lstrip("!"))}
            if register[0] == "P":
                given = _UNIFORM if isinstance(value, (str, int)) else None
                self.whole_if -= {register, "!" + register}
            if one.guard and self.values.get(register) != given:
                kept = isinstance(given, (str, int)) and self.same(one.guard.lstrip("!")) and register != one.guard.lstrip("!")
                if kept:
                    self.guarded[register, one.guard] = given
                given = _UNIFORM if kept and isinstance(self.values.get(register), (str, int)) else None
            if given is None:
                self.values.pop(register, None)
            else:
                self.values[register] = given


def _of_lanes(one: Instruction, values: list[_Value]) -> _Value:
    """What is known of a result of which an operand differs between lanes in a known way: mostly, what a warp has in common of threadIdx.x."""
    name, numbers = one.name, [value for value in values if isinstance(value, int)]
    masked = name.startswith("LOP3") and "0xc0" in one.operands[-2:] and isinstance(values[1], int)
    if isinstance(values[0], _Low):
        return _UNIFORM if masked and 0 <= values[1] < 1 << values[0].bits else None
    lanes = [value for value in values if isinstance(value, _Lanes)]
    if len(lanes) != 1 or None in values:
        return None
    [of_lane] = lanes
    unit = 1 << of_lane.bits
    if one.operation in ("IADD3", "VIADD") and ".X" not in name and len(numbers) == len(values) - 1:
        return _Lanes(of_lane.bits, of_lane.offset + sum((number + (1 << 31)) % (1 << 32) - (1 << 31) for number in numbers))
    if one.operation == "ISETP" and ".EX" not in name and values[0] is of_lane and isinstance(values[1], int):
        edge = values[1] + (".GT" in name or ".LE" in name) - of_lane.offset
        wraps = ".U32" in name and of_lane.offset < 0 and of_lane.offset % unit
        return _UNIFORM if any(part in name for part in (".GT", ".LE", ".GE", ".LT")) and edge % unit == 0 and not wraps else None
    if of_lane.offset:
        return None
    if masked and values[0] is of_lane:
        return _UNIFORM if values[1] % unit == 0 else None
    if name in ("SHF.R.U32.HI", "SHF.R.S32.HI") and values[2] is of_lane and isinstance(values[1], int):
        if values[1] == 31:
            return 0  # its sign
        return _UNIFORM if values[1] >= of_lane.bits else _Lanes(of_lane.bits - values[1])
    if name == "LEA.HI" and len(values) == 4 and values[0] == values[2] == 0:
        return of_lane  # the beginning of a quotient that rounds towards zero
    return None


def _permuted(low: _Value, chosen: _Value, high: _Value) -> _Value:
    """PRMT: its lowest bytes that are the same in all lanes, each chosen by four bits from those of two registers."""
    if not isinstance(chosen, int):
        return None
    alike = 0
    for at in range(4):
        byte = chosen >> 4 * at & 7
        source = low if byte < 4 else high
        if not (isinstance(source, (str, int)) or isinstance(source, _Low) and byte % 4 * 8 < source.bits):
            break
        alike += 8
    return _UNIFORM if alike == 32 else _Low(alike) if alike else None


def _number(text: str) -> int | None:
    return int(text, 16) if re.fullmatch(r"-?0x[0-9a-f]+", text) else 0 if text in ("RZ", "URZ") else None


@cache
def _read(source: str) -> tuple[str, int | str | None, tuple[str, ...]]:
    """An operand: without marks, its number if it is one or its place if it is a parameter of the launch, and the registers and predicates that decide it."""
    plain = source.removesuffix(".reuse")
    registers = tuple(f"P{bit}" for bit in range(7)) if plain == "PR" else tuple(re.findall(r"(?<![\w.])(R\d+|P\d)(?!\w)", plain))
    known = plain if re.fullmatch(r"c\[0x0\]\[0x[0-9a-f]+\]", plain) else _number(plain)
    return plain, known, registers


def _parts(one: Instruction) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The registers and predicates that an instruction writes, and the operands that it reads."""
    operands, operation = list(one.operands), one.operation
    if operation in _NO_RESULT or not operands:
        return (), one.operands
    if operation == "R2P":
        chosen = _number(operands[-1])
        return tuple(f"P{bit}" for bit in range(7) if chosen is None or chosen >> bit & 1), one.operands[1:]
    if operation == "VOTE":
        results = len(operands) - 1
    elif _is_predicate(operands[0]):
        results = (2 if operation in _TWO_RESULTS else 1) + (operation in _PREDICATE_FIRST)
    else:
        results = 1
        while operation in _CARRIES and results < len(operands) and _is_predicate(operands[results]):
            results += 1
    written: list[str] = []
    for register in operands[:results]:
        if re.fullmatch(r"P\d", register):
            written.append(register)
        elif re.fullmatch(r"R\d+", register):
            written += [f"R{int(register[1:]) + at}" for at in range(_count(one))]
    return tuple(written), one.operands[results:]


def _is_predicate(operand: str) -> bool:
    return re.fullmatch(r"U?P(\d|T)", operand) is not None


def _count(one: Instruction) -> int:
    """How many registers a result has."""
    name, operation = one.name, one.operation
    if operation.endswith("GMMA"):
        shape = re.search(r"64x(\d+)x", name)
        return int(shape[1]) // 2 if shape else 128
    if operation == "LDTM":
        shape = re.search(r"\.x(\d+)", name)
        return int(shape[1]) if shape else 128
    if operation == "LDSM":  # a register for each matrix: none, `.2` or `.4` at the end of the name
        return int(matrices[1]) if (matrices := re.search(r"\.([24])$", name)) else 1
    if operation in ("HMMA", "IMMA", "DMMA", "QMMA", "OMMA") or ".128" in name:
        return 4
    wide = operation in ("DADD", "DMUL", "DFMA") or operation == "CS2R" and ".32" not in name
    wide = wide or re.match(r"(F2F|I2F|FRND)\.F64|F2I\.[SU]64", name) is not None  # of conversions the result's type comes first
    return 2 if wide or ".64" in name or ".WIDE" in name else 1


def _stack(one: Instruction, operand: str) -> list[str]:
    """The words of the stack that a load or store of a thread's own memory means; none where the address is computed."""
    found = re.fullmatch(r"\[R1(?:\+(0x[0-9a-f]+))?\]", operand)
    return [f"[R1+{int(found[1] or '0', 16) + 4 * number:#x}]" for number in range(_count(one))] if found else []
