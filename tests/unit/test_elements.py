"""Types of elements: each row's numbers by hand, and who is told of them."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pytest
from ways import plan_of

from gemmgen import abi
from gemmgen.catalog import input as inputs
from gemmgen.catalog import output as outputs
from gemmgen.catalog.element import ELEMENTS, F32, F64
from gemmgen.errors import SpecError
from gemmgen.render import render
from gemmgen.run import Placement, check_extents, stored
from gemmgen.run.batch import refuse_overlap
from gemmgen.batch import PROBLEM
from gemmgen.spec import loads


def test_f32_by_hand():
    assert (F32.bytes, F32.roundoff, F32.tiniest, F32.c_type) == (4, 2.0**-24, 2.0**-149, "float") and F32.is_usual and not F64.is_usual
    assert np.isnan(F32.poison) and F32.poison.dtype == np.float32
    assert F32.rounded(np.array([1 + 2.0**-24, 1 + 2.0**-23, 3e38])).tolist() == [1, 1 + 2.0**-23, float(np.float32(3e38))]
    assert F32.exact(np.float32([[1 + 2.0**-23]]), np.float32([[1 + 2.0**-23]]))[0, 0] == (1 + 2.0**-23) ** 2
    assert F32.finite(np.float32([np.inf, -np.inf, np.nan, 3])).tolist() == [0, 0, 0, 3]


def test_what_is_not_finite_is_so_in_the_type_of_the_elements():
    a = np.float32([[2.0**100, 1]])
    product, finite = F32.exact_or_special(a, a.T)
    assert product[0, 0] == np.inf and not finite[0, 0]
    assert F32.same_special(np.float32([[np.inf]]), product, finite) and not F32.same_special(np.float32([[np.nan]]), product, finite)
    for wrong in (np.inf, np.nan):  # where a number is to be
        assert not F32.same_special(np.float32([[wrong]]), np.ones((1, 1)), np.array([[True]]))
    wide = a.astype(np.float64)
    assert F64.exact_or_special(wide, wide.T)[1][0, 0]


def test_types_of_b_and_of_c_are_rows_on_top_of_it():
    for row in (inputs.USUAL, outputs.USUAL):
        assert (row.name, row.title, row.element) == (F32.name, F32.title, F32.c_type) and np.dtype(row.dtype) == F32.dtype


@pytest.mark.parametrize("row", [outputs.F16, outputs.BF16], ids=lambda row: row.name)
def test_figures_of_a_type_of_c_are_those_of_its_rounding(row):
    """Halfway between two numbers the even one is taken: 1, none that is finite, and 0."""
    step, halfway = 2 * row.roundoff, row.largest + 2.0 ** np.floor(np.log2(row.largest)) * row.roundoff
    given = np.float32([1 + step, 1 + row.roundoff, 1 + 0.75 * step, row.largest, halfway, row.tiniest, 1.5 * row.tiniest, 2 * row.tiniest])
    with np.errstate(over="ignore"):
        found = row.rounded(given).tolist()
    assert found == [1 + step, 1, 1 + step, row.largest, np.inf, 0, 2 * row.tiniest, 2 * row.tiniest]


def test_a_spec_has_the_types_that_there_are():
    assert loads({"problem": {"type": "f32"}}, "here").spec.problem.type == "f32" == loads({}, "here").spec.problem.type and list(ELEMENTS) == ["f32", "f64", "c64", "c128"]
    with pytest.raises(SpecError, match=r"\[problem\] type") as error:
        loads({"problem": {"type": "f128"}}, "here")
    assert "f128" in f"{error.value}" and "f32" in f"{error.value}" and "f64" in f"{error.value}"


def test_kernels_name_the_type_of_their_operands():
    """Of a type that no kernel has yet the table and the text show where it goes."""
    usual, other = plan_of(), replace(plan_of(), type=F64)
    told = {one.name: one.type for launch in abi.interface(other).launches for one in launch.parameters}
    assert told["a"] == "const double*" and other.identity["type"] == "f64" and "type" not in usual.identity
    assert "const double* from = x +" in render(replace(plan_of(where="shared"), type=F64)).text and usual.hash != other.hash


def test_memory_is_of_the_types_size():
    matrix = np.ones((1, 2, 3))
    flat, pitch, _ = stored(matrix, Placement((1, 0, 0)), 0, F64)
    assert flat.dtype == np.float64 and pitch == 4 and np.isnan(flat[3]) and flat.size == 7
    with pytest.raises(SpecError, match="is not a matrix of float64"):
        check_extents(np.zeros((1, 1), np.float32), np.zeros((1, 1), np.float32), None, element=F64)
    apart = np.zeros(2, PROBLEM)
    apart["m"], apart["n"], apart["ldc"], apart["c"] = 1, 4, 4, (4096, 4096 + 16)
    refuse_overlap(apart)
    with pytest.raises(SpecError, match="the same place"):
        refuse_overlap(apart, F64)


def test_a_type_of_c_is_known_by_its_name():
    """A process that is sent a plan has another object."""
    with pytest.raises(SpecError, match=r"\[problem\] type: stores C in FP32 alone"):
        outputs.require_f32(pickle.loads(pickle.dumps(outputs.WIDE)), "stores")
