"""Kinds of products: what each tells of itself, and what a launch of its kernels is told."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

from gemmgen.batch import PROBLEM
from gemmgen.errors import GemmgenError
from gemmgen.interface import given
from gemmgen.kinds import GEMM, GROUPED, POINTERS, STRIDED, Kind, all_kinds, kind_called

MATRICES = tuple((given(x, "float", "", pointer=True, const=x != "c", restrict=True), given(f"ld{x}", "long long", "")) for x in "abc")
SIZES = tuple(given(x, "int", "") for x in ("m", "n", "k")) + tuple(given(x, "float", "") for x in ("alpha", "beta"))
BATCHES = [one for one in all_kinds().values() if one.batched]


class Held:
    """Names in place of memory."""

    def records(self) -> str:
        return "records"

    def pointers(self, operand: str) -> str:
        return f"pointers of {operand}"

    def first(self, operand: str) -> str:
        return f"first {operand}"


def problems(count: int) -> np.ndarray:
    """Products of 3 x 4 x 5 whose matrices lie 100, 200 and 300 elements of 4 bytes apart."""
    made = np.zeros(count, PROBLEM)
    for x, (start, apart) in {"a": (4096, 100), "b": (8192, 200), "c": (1 << 20, 300)}.items():
        made[x] = start + 4 * apart * np.arange(count)
    for name, value in {"m": 3, "n": 4, "k": 5, "lda": 5, "ldb": 4, "ldc": 0, "alpha": 2.0, "beta": -1.0}.items():
        made[name] = value
    return made


def test_kinds_are_found_by_name_and_stay_themselves():
    assert list(all_kinds()) == ["gemm", "strided", "pointers", "grouped"] and kind_called("gemm") is GEMM
    for kind in all_kinds().values():
        assert f"{kind}" == kind.name and pickle.loads(pickle.dumps(kind)) == kind == copy.deepcopy(kind)
        assert [other for other in all_kinds().values() if other == kind] == [kind] and kind.plain


def test_two_kinds_of_one_name_are_refused(monkeypatch):
    from gemmgen import kinds

    monkeypatch.setattr(kinds, "entry_points", lambda group: [type("Point", (), {"name": "x", "load": staticmethod(lambda: Kind())})()])
    with pytest.raises(GemmgenError, match="two have one name"):
        all_kinds.__wrapped__()


@pytest.mark.parametrize("kind", BATCHES, ids=str)
def test_a_launch_is_told_what_its_signature_asks_for(kind):
    """Every parameter that passes on an argument gets one, and `Products` is filled with parameters."""
    names = {one.name for line in kind.lines(MATRICES, SIZES, given("batch", "int", "")) for one in line.parameters}
    assert names == {*kind.fields} and names - {"batch"} == set(kind.arguments(problems(2), Held()))


def test_strides_are_elements_between_one_product_and_the_next():
    told = STRIDED.arguments(problems(3), Held())
    assert (told["stride_a"], told["stride_b"], told["stride_c"]) == (100, 200, 300) and told["a"] == "first a"
    assert STRIDED.arguments(problems(1), Held())["stride_c"] == 0
    assert (told["m"], told["k"], told["alpha"], told["beta"], told["ldc"]) == (3, 5, 2.0, -1.0, 1)
    assert STRIDED.arguments(problems(0), Held())["m"] == 0


def test_pointers_and_records_are_what_the_device_holds():
    assert POINTERS.arguments(problems(2), Held())["b"] == "pointers of b"
    assert GROUPED.arguments(problems(2), Held()) == {"problems": "records"}
    [a, *_] = POINTERS.lines(MATRICES, SIZES, given("batch", "int", ""))
    assert a.parameters[0].type == "float**" and a.parameters[1].type == "long long"
