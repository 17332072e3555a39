"""AMD's fragments against the compiler: which targets have an instruction, what its builtin takes, and what it is called."""

from __future__ import annotations

import re

import pytest

from gemmgen.build import compile_hip, find_clang
from gemmgen.catalog.fragment import FRAGMENTS, Fragment
from gemmgen.errors import BuildError
from ways import sampled

ROWS = {row.name: row for row in FRAGMENTS.rows() if row.vendor == "amd" and row.on_matrix_unit}

# One instruction on operands from memory. Without conversions between vectors, a builtin takes its own types alone.
KERNEL = """
typedef %s Operand%s;
typedef %s Sums __attribute__((ext_vector_type(%d)));
extern "C" __attribute__((global)) void one(const Operand* a, const Operand* b, Sums* c) {
    const int lane = __builtin_amdgcn_workitem_id_x();
    c[lane] = %s;
}
"""
STRICT = ("-flax-vector-conversions=none",)
CALL = {
    "mfma": "{0}(a[lane], b[lane], c[lane], 0, 0, 0)", "wmma": "{0}(a[lane], b[lane], c[lane])",
    "signed wmma": "{0}(true, a[lane], true, b[lane], c[lane], false)",
}  # fmt: skip


def kernel(row: Fragment) -> str:
    """Operands as LLVM's BuiltinsAMDGPU declares them."""
    m, n, k = row.shape
    count = m * k * row.a.copies // row.threads
    element = {"f16": "_Float16", "tf32": "float", "bf16": "__bf16" if row.archs == ("gfx950",) else "short"}.get(row.word, "int")
    if row.word_bytes == 1:
        count //= 4
        if count == 2 and row.policy == "mfma":
            element, count = "long", 1
    vector = f" __attribute__((ext_vector_type({count})))" if count > 1 else ""
    call = CALL["signed wmma" if (row.word, row.policy) == ("s8", "wmma") else row.policy]
    return KERNEL % (element, vector, "int" if row.word == "s8" else "float", m * n // row.threads, call.format(row.builtin))


def bare(mnemonic: str) -> str:
    """Without what differs between generations: bars, and the end that tells two instructions on bf16 apart."""
    return mnemonic.removesuffix("_1k").replace("_", "")


@pytest.mark.parametrize("name", sampled(ROWS, 8))
def test_the_targets_that_have_it_and_no_others(name):
    """Of all targets with a matrix unit that the compiler knows."""
    row, known = ROWS[name], find_clang().archs
    has = {arch for other in ROWS.values() if other.builtin == row.builtin for arch in other.archs}  # FP8 is two rows, one a format
    assert {"gfx908", "gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201"} <= set(known)
    printed = {}
    for arch in known:
        if arch in has:
            assembly = compile_hip(kernel(row), arch, options=STRICT).assembly
            [printed[arch]] = re.findall(r"^\s+(v_(?:mfma|wmma|smfmac|swmmac)\w+) ", assembly, re.M)
        else:
            with pytest.raises(BuildError, match="needs target feature|Cannot select"):
                compile_hip(kernel(row), arch, options=STRICT, cache=None)
    assert set(printed) == has & set(known)
    assert printed[row.archs[-1]] == row.instruction
    assert {bare(mnemonic) for mnemonic in printed.values()} == {bare(row.instruction)}


@pytest.mark.parametrize(("name", "arch", "mnemonic"), [
    ("mfma_m32n32k8_f16", "gfx90a", "v_mfma_f32_32x32x8f16"),
    ("mfma_m32n32k8_f16", "gfx942", "v_mfma_f32_32x32x8_f16"),
    ("mfma_m32n32k8_bf16", "gfx90a", "v_mfma_f32_32x32x8bf16_1k"),
    ("mfma_m32n32k8_bf16", "gfx942", "v_mfma_f32_32x32x8_bf16"),
])
def test_older_targets_spell_it_otherwise(name, arch, mnemonic):
    assert f"{mnemonic} " in compile_hip(kernel(ROWS[name]), arch, options=STRICT).assembly


def test_the_compiler_would_see_other_operands():
    row = ROWS["mfma_m32n32k8_f16"]
    text = kernel(row).replace("ext_vector_type(4)", "ext_vector_type(8)")
    assert text != kernel(row)
    with pytest.raises(BuildError, match="cannot initialize a parameter"):
        compile_hip(text, "gfx90a", options=STRICT, cache=None)
