"""Which lane and register holds element (i, j) of each operand of an instruction, found by launches alone (WMMAe, code 2).

One word of A is 1 and every word of B is a number of its own, so that D tells which word of B each sum multiplied that word of A
with. Sums that one word of A reaches are of one row; sums that one word of B reaches are of one column; words that meet have one k.
Where memory says what an element is - operands that the unit reads from shared memory, fragments of a library's type that
instructions load - rows, columns and k have their own numbers. Elsewhere an instruction cannot tell row 3 from row 5: the
same permutation of the rows of A and of C is the same product. Their numbers are then those of a row of the catalog, as far as
its C and A put the same elements into the same rows, columns and k; else they are counted in bits, the lowest bit of a lane first.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gemmgen.catalog.conversion import RAW, decode, to_float8
from gemmgen.catalog.fragment import Fragment, FragmentMap
from gemmgen.catalog.number import FORMATS, INTEGERS
from gemmgen.errors import DeviceError
from gemmgen.workshop.bringup.probe import Raw, joined_words, split_registers

NOBODY = -1
"""Row and column of a place that no product read."""


@dataclass(frozen=True)
class Held:
    """What the places of one operand hold.

    Attributes:
        rows, columns: [threads, registers, words in a register], NOBODY of a place that nobody reads.
        extents: rows and columns of the operand.
        bits: the same as bit rows of specs/fragments; None where none say it.
        odd: why not, in words; empty where they do.
    """

    rows: np.ndarray
    columns: np.ndarray
    extents: tuple[int, int]
    bits: FragmentMap | None
    odd: str = ""

    @property
    def read(self) -> np.ndarray:
        return self.rows != NOBODY

    def placed(self, matrices: np.ndarray) -> np.ndarray:
        """[tiles, rows, columns] as they lie in places: [tiles, threads, registers, words in a register]; zeros where nobody reads."""
        return np.where(self.read, matrices[:, self.rows, self.columns], np.zeros((), matrices.dtype))

    def gathered(self, places: np.ndarray) -> np.ndarray:
        """The way back, of any copy."""
        found = np.zeros((len(places), *self.extents), places.dtype)
        found[:, self.rows[self.read], self.columns[self.read]] = places[:, self.read]
        return found


@dataclass(frozen=True)
class Maps:
    """The maps of an instruction.

    Attributes:
        a, b, c: of its operands; no b where the unit reads it from shared memory.
        anchored: whether memory says what rows, columns and k are, and not the catalog's row or a count of bits.
        numbered: whether memory or the catalog's row says which k is which; else k are counted, and their order means nothing.
        tiles: how many products were asked.
    """

    fragment: Fragment
    a: Held
    b: Held | None
    c: Held
    anchored: bool
    numbered: bool
    tiles: int

    @property
    def fits(self) -> bool:
        """Whether bit rows say all of them."""
        return all(held is None or held.bits is not None for held in (self.a, self.b, self.c))

    @property
    def complaints(self) -> list[str]:
        """Why bit rows do not, an operand a line."""
        return [f"{name}: {held.odd}" for name in "abc" if (held := getattr(self, name)) and held.odd]

    def same_as(self, fragment: Fragment) -> bool:
        """Whether a row of the catalog, or a wider instruction of it, has the same maps, place by place."""
        if fragment.map_source == "constructed":  # which has no row
            return False
        for name in "abc":
            held, row = getattr(self, name), getattr(fragment, name)
            if held is None and row is None:
                continue
            if held is None or row is None or held.rows.shape != (1 << len(row.lanes), row.register_count, row.packed_count):
                return False
            known = np.array([row.element(*place) for place in np.ndindex(held.rows.shape)]).reshape(*held.rows.shape, 2)
            if (known[..., 0] != held.rows).any() or (known[..., 1] != held.columns).any():
                return False
        return True


def find_maps(raw: Raw) -> Maps:
    """The maps of an instruction, by probing it.

    Raises:
        DeviceError: what comes out is no product of matrices of its shape.
    """
    if raw.fragment.interface.library_fragment:
        return _loaded(raw)
    pairs, tiles = _pairs(raw)
    return _named(raw, pairs, tiles)


def _digits(word: str) -> int:
    """The largest power of two up to which all whole numbers are words."""
    return 64 if word in INTEGERS else 1 << min(10, FORMATS[word].fraction_bits + 1)


def whole_words(word: str, numbers: np.ndarray) -> np.ndarray:
    """Small whole numbers as words of a type, exactly."""
    return exact_words(word, numbers.astype(np.float32))


def exact_words(word: str, values: np.ndarray) -> np.ndarray:
    """Float values as stored words of a type that has them."""
    values = np.asarray(values, np.float32)
    if word == "f16":
        return values.astype(np.float16).view(np.uint16)
    if word in ("bf16", "tf32"):
        return (values.view(np.uint32) >> np.uint32(16)).astype(np.uint16) if word == "bf16" else values.view(np.uint32)
    return values.astype(np.int8) if word in INTEGERS else to_float8(values, word, saturate=False)


def _pairs(raw: Raw) -> tuple[np.ndarray, int]:
    """[places of A, places of C]: which place of B a sum multiplied a word of A with, NOBODY for none; and the number of tiles."""
    fragment = raw.fragment
    raw_word = RAW[fragment.word]
    shapes = _shapes(raw)
    shared = fragment.from_shared
    places_a, places_b = int(np.prod(shapes["a"])), int(np.prod(raw.shape("b") if shared else shapes["b"]))
    base = _digits(fragment.word)
    digits = max(1, int(np.ceil(np.log(places_b) / np.log(base) - 1e-9)))
    one = whole_words(fragment.word, np.ones(1))[0]
    hot = np.zeros((places_a, places_a), raw_word)
    np.fill_diagonal(hot, one)
    a = joined_words(repeated(raw, hot.reshape(places_a, *shapes["a"])))
    c = np.zeros((places_a, *raw.shape("c")), raw.sums)
    number = np.arange(places_b)
    found = np.zeros((places_a, c[0].size), np.int64)
    reached = None
    for digit in range(digits):
        words = whole_words(fragment.word, number // base**digit % base + 1)
        b = words.reshape(raw.shape("b")) if shared else joined_words(repeated(raw, words.reshape(1, *shapes["b"])))[0]
        d = raw(a, np.broadcast_to(b, (places_a, *b.shape)), c).reshape(places_a, -1)
        with np.errstate(invalid="ignore"):
            here = np.rint(np.nan_to_num(d.astype(np.float64)))
            reached = here > 0 if reached is None else reached
            found += np.where(reached, (here - 1).astype(np.int64) * base**digit, 0)
        wrong = (here != d) | (here < 0) | (here > base) | (reached != (here > 0)) | (found >= places_b)
        if wrong.any():
            raise DeviceError(fragment.name, "sums that no one word of A and one of B can give", got=float(d[wrong][0]),
                              needs="an instruction that multiplies matrices")
    return np.where(reached, found, NOBODY), places_a * digits


def _shapes(raw: Raw) -> dict[str, tuple[int, int, int]]:
    """[threads, registers, words in a register] of each operand in registers, without lanes that have to repeat others.

    An instruction may demand that; then it is told by its documentation, and not found.
    """
    words = 4 // RAW[raw.fragment.word].itemsize
    held = {name: getattr(raw.fragment, name) for name in "abc" if getattr(raw.fragment, name)}
    return {name: (raw.shape(name)[0] // _repeats(raw, name), raw.shape(name)[1], 1 if name == "c" else words) for name in held}


def _repeats(raw: Raw, operand: str) -> int:
    return getattr(raw.fragment, operand).lane_copies


def repeated(raw: Raw, places: np.ndarray) -> np.ndarray:
    """[tiles, lanes, ...] for all lanes, where upper ones have to repeat lower ones."""
    return np.concatenate([places] * (raw.fragment.threads // places.shape[1]), 1)


def _components(left: np.ndarray, right: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Numbers of the connected parts of a graph of pairs: of the `count` left ends, and of the right ones; NOBODY of what no pair names."""
    ends = int(right.max()) + 1 if len(right) else 0
    label = np.arange(count + ends)
    while True:  # the least number of a neighbour, until nothing changes
        low = np.minimum(label[left], label[count + right])
        before = label.copy()
        np.minimum.at(label, left, low)
        np.minimum.at(label, count + right, low)
        if (before == label).all():
            break
    used = np.zeros(count + ends, bool)
    used[left] = used[count + right] = True
    _, numbered = np.unique(label[used], return_inverse=True)
    result = np.full(count + ends, NOBODY)
    result[used] = numbered
    return result[:count], result[count:]


def _padded(numbers: np.ndarray, length: int) -> np.ndarray:
    return np.concatenate([numbers, np.full(length - len(numbers), NOBODY)])


def _named(raw: Raw, pairs: np.ndarray, tiles: int) -> Maps:
    fragment = raw.fragment
    m, n, k = fragment.shape
    of_a, of_d = np.nonzero(pairs != NOBODY)
    of_b = pairs[of_a, of_d]
    shapes = _shapes(raw)
    sizes = {name: int(np.prod(shape)) for name, shape in shapes.items()}
    row_a, row_c = _components(of_a, of_d, sizes["a"])
    column_c, column_b = _components(of_d, of_b, sizes["c"])
    k_a, k_b = _components(of_a, of_b, sizes["a"])
    for name, extent, part in (("rows", m, row_c), ("columns", n, column_c), ("k", k, k_a)):
        if len(set(part[part != NOBODY].tolist())) != extent:
            raise DeviceError(fragment.name, f"has another number of {name}", got=len(set(part[part != NOBODY].tolist())), needs=f"{extent}, as its name says")
    if fragment.from_shared:  # element k * n + j of memory, which names both
        place_k, place_j = np.divmod(np.arange(k * n), n)
        k_a = _renamed(k_a, _padded(k_b, k * n), place_k)
        column_c = _renamed(column_c, _padded(column_b, k * n), place_j)
        row_names, _ = _names(row_c, _of_row(fragment, "c", 0, shapes["c"]), shapes["c"])
        numbered = True
        i_a, i_c = row_names[row_a], row_names[_padded(row_c, sizes["c"])]
        found = {"a": (i_a, k_a), "c": (i_c, column_c)}
    else:
        column_b, k_b = _padded(column_b, sizes["b"]), _padded(k_b, sizes["b"])
        row_c, column_c = _padded(row_c, sizes["c"]), _padded(column_c, sizes["c"])
        rows, _ = _names(row_c, _of_row(fragment, "c", 0, shapes["c"]), shapes["c"])
        columns, _ = _names(column_c, _of_row(fragment, "c", 1, shapes["c"]), shapes["c"])
        depths, numbered = _names(k_a, _of_row(fragment, "a", 1, shapes["a"]), shapes["a"])
        found = {"a": (rows[row_a], depths[k_a]), "b": (depths[k_b], columns[column_b]), "c": (rows[row_c], columns[column_c])}
    extents = {"a": (m, k), "b": (k, n), "c": (m, n)}
    held = {name: held_of(*(repeated(raw, x.reshape(1, *shapes[name]))[0] for x in found[name]), extents[name]) for name in found}
    return Maps(fragment, held["a"], held.get("b"), held["c"], False, numbered, tiles)


def _renamed(numbers: np.ndarray, known: np.ndarray, names: np.ndarray) -> np.ndarray:
    """Parts under the names that `known`, places of the same parts, have."""
    table = np.full(max(numbers.max(), known.max()) + 2, NOBODY)
    table[known] = names
    table[NOBODY] = NOBODY
    return table[numbers]


def _of_row(fragment: Fragment, operand: str, axis: int, shape: tuple[int, ...]) -> np.ndarray | None:
    """What the catalog's row says of each place; None of an instruction that has no row."""
    if fragment.map_source == "constructed":
        return None
    held = getattr(fragment, operand)
    return np.array([held.element(*place)[axis] for place in np.ndindex(*shape)])


def _names(parts: np.ndarray, row: np.ndarray | None, shape: tuple[int, ...]) -> tuple[np.ndarray, bool]:
    """A number for each part, and NOBODY for none: the row's where it has the same parts, else counted in bits, else in turn; and whether it is the row's."""
    count = int(parts.max()) + 1
    used = parts != NOBODY
    table = np.full(count + 1, NOBODY)
    if row is None:
        return _counted(parts, shape, count), False
    table[parts[used]] = row[used]
    if (table[parts[used]] == row[used]).all() and len(set(table[:count].tolist())) == count:
        return table, True
    return _counted(parts, shape, count), False


def _counted(parts: np.ndarray, shape: tuple[int, ...], count: int) -> np.ndarray:
    """Numbers counted in bits of the place: words in a register first, then registers, then lanes."""
    grid = parts.reshape(shape)
    label = np.zeros(shape, np.int64)
    value = 1
    for axis in (2, 1, 0):
        for bit in range(max(shape[axis] - 1, 0).bit_length()):
            at = [0, 0, 0]
            at[axis] = 1 << bit
            if at[axis] < shape[axis] and grid[tuple(at)] != grid[0, 0, 0]:
                index = np.arange(shape[axis]) >> bit & 1
                label += value * index.reshape([-1 if other == axis else 1 for other in range(3)])
                value *= 2
    table = np.full(count + 1, NOBODY)
    table[parts] = label.reshape(-1)
    table[NOBODY] = NOBODY
    if sorted(table[:count].tolist()) == list(range(count)):
        return table
    order = list(dict.fromkeys(parts[parts != NOBODY].tolist()))
    table[order] = np.arange(count)
    return table


def held_of(rows: np.ndarray, columns: np.ndarray, extents: tuple[int, int]) -> Held:
    """What places hold, with the bit rows that say it, or why there are none.

    Args:
        rows, columns: [threads, registers, words in a register].
    """
    def unfit(why: str) -> Held:
        return Held(rows, columns, extents, None, why)

    if (rows == NOBODY).any():
        lane, register, packed = np.argwhere(rows == NOBODY)[0]
        return unfit(f"lane {lane}, register {register}, word {packed} is not read")
    shape = rows.shape
    if any(size & size - 1 for size in shape):
        return unfit("registers that are no power of two")
    if (first := (int(rows[0, 0, 0]), int(columns[0, 0, 0]))) != (0, 0):
        return unfit(f"lane 0, register 0 holds {first}, which bits that add cannot say")
    offsets: list[tuple[tuple[int, int], ...]] = []
    told = np.zeros((2, *shape), np.int64)
    for axis in range(3):
        own = []
        for bit in range((shape[axis] - 1).bit_length()):
            at = [0, 0, 0]
            at[axis] = 1 << bit
            own.append((int(rows[tuple(at)]), int(columns[tuple(at)])))
            index = (np.arange(shape[axis]) >> bit & 1).reshape([-1 if other == axis else 1 for other in range(3)])
            told += np.array(own[-1]).reshape(2, 1, 1, 1) * index
        offsets.append(tuple(own))
    if (wrong := (told[0] != rows) | (told[1] != columns)).any():
        lane, register, packed = (int(x) for x in np.argwhere(wrong)[0])
        return unfit(
            f"lane {lane}, register {register}, word {packed} holds {(int(rows[lane, register, packed]), int(columns[lane, register, packed]))}, "
            f"where its bits add up to {tuple(int(x[lane, register, packed]) for x in told)}"
        )
    copies = rows.size // (extents[0] * extents[1])
    try:
        bits = FragmentMap(lanes=offsets[0], registers=offsets[1], packed=offsets[2], copies=copies)
    except ValueError as error:
        return unfit(str(error).splitlines()[2].strip() if len(str(error).splitlines()) > 2 else str(error))
    if complaint := bits.prove(*extents):
        return unfit(complaint)
    return Held(rows, columns, extents, bits)


def _loaded(raw: Raw) -> Maps:
    """Of a library's type: instructions load matrices of numbers, and the registers tell which element is where."""
    fragment = raw.fragment
    m, n, k = fragment.shape
    extents = {"a": (m, k), "b": (k, n), "c": (m, n)}
    base = _digits(fragment.word)
    numbers = {name: np.arange(int(np.prod(extent))).reshape(extent) for name, extent in extents.items()}
    found = {name: 0 for name in extents}
    digits = max(1, int(np.ceil(np.log(max(x.size for x in numbers.values())) / np.log(base) - 1e-9)))
    for digit in range(digits):
        a, b = (whole_words(fragment.word, numbers[name] // base**digit % base) for name in "ab")
        got = raw.loaded(a, b, numbers["c"].astype(raw.sums))
        for name, registers in zip("ab", got):
            values = decode(fragment.word, split_registers(fragment, registers))
            found[name] = found[name] + np.rint(values).astype(np.int64) * base**digit
        found["c"] = got[2][..., None].astype(np.int64)
    held = {}
    for name, (_, columns) in extents.items():
        rows, column = np.divmod(found[name], columns)
        held[name] = held_of(rows, column, extents[name])
    return Maps(fragment, held["a"], held["b"], held["c"], True, True, digits)
