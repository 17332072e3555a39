"""The fragment headers of AMD's instructions: they compile alone for every target, and prove their maps as they do."""

from __future__ import annotations

import re

import pytest

from gemmgen.build import compile_hip, find_clang
from gemmgen.catalog.fragment import FRAGMENTS, Fragment, find
from gemmgen.errors import BuildError
from gemmgen.fragment_header import fragment_header, header_name
from ways import sampled

ROWS = {row.name: row for row in FRAGMENTS.rows() if row.vendor == "amd"}
DEEP = {f"{row.deepest} {name}": row.deep(row.deepest) for name, row in ROWS.items() if row.deepest}
EVERY = ROWS | DEEP

KERNEL = """
using namespace %s;
extern "C" __attribute__((global)) void product(const %s* x, const %s* y, %s* out) {
    A a;
    B b;
    C c;
    foreach_ij(a, [&](int index, int i, int j) { a.set(index, x[i * A::columns + j]); });
    foreach_ij(b, [&](int index, int i, int j) { b.set(index, y[i * B::columns + j]); });
    set_ij(a, 3, 2, 2);
    multiply_add(c, a, b);
    foreach_ij(c, [&](int index, int i, int j) { out[i * C::columns + j] = c.get(index); });
}
"""

# What HIP's own headers define before a source is seen (host_defines.h).
HIP = tuple(f"-D__{word}__=__attribute__(({word}))" for word in ("host", "device", "global", "shared")) + (
    "-D__forceinline__=inline __attribute__((always_inline))",
)


def source(row: Fragment) -> str:
    value = "int" if row.word == "s8" else "float"
    return fragment_header(row) + KERNEL % (row.name, value, value, value)


def mnemonics(assembly: str) -> list[str]:
    return re.findall(r"^\s+(v_(?:mfma|wmma)_\w+) ", assembly, re.M)


@pytest.mark.parametrize(("name", "arch"), [
    pytest.param(name, arch, marks=() if arch == row.archs[-1] else pytest.mark.long) for name, row in EVERY.items() for arch in row.archs
])
def test_the_primitives_compile(name, arch):
    row = EVERY[name]
    binary = compile_hip(source(row), arch, options=("-Werror", "-Wall", "-Wextra", "-Wno-unused-parameter"))
    assert len(mnemonics(binary.assembly)) == ((row.instructions or 1) if row.on_matrix_unit else 0)
    assert binary.kernels["product"].spill_bytes == 0
    if not row.on_matrix_unit:
        assert re.search(r"^\s+v_(?:dual_|pk_)?fma(?:c)?_f32", binary.assembly, re.M)
    elif arch == row.archs[-1]:
        assert set(mnemonics(binary.assembly)) == {row.instruction}


@pytest.mark.parametrize("name", sampled(ROWS, 8))
def test_in_the_company_of_hips_own_headers(name):
    """The macros that hipcc and hiprtc bring do it no harm, nor does a second inclusion."""
    row = ROWS[name]
    text = fragment_header(row) + source(row)
    assert len(mnemonics(compile_hip(text, row.archs[0], options=HIP).assembly)) == row.on_matrix_unit


@pytest.mark.parametrize("name", sampled(ROWS, 8))
def test_the_host_reads_it_too(name, tmp_path):
    """hipcc compiles a source twice, once for the host, where `map` is as constant."""
    row = ROWS[name]
    (tmp_path / "host.hip").write_text(source(row) + "static_assert(A::map(0, 0).lane == 0 && sizeof(C) == 4 * C::elements);\n")
    options = ("-x", "hip", "--cuda-host-only", "-nogpuinc", "-nogpulib", f"--offload-arch={row.archs[0]}", "-std=c++17")
    done = find_clang().compile((*options, "-fsyntax-only", "host.hip"), tmp_path)
    assert done.returncode == 0, done.stderr.decode()


@pytest.mark.parametrize("name", sampled(ROWS, 8))
def test_another_target_is_refused_with_a_word(name):
    row = ROWS[name]
    other = next(arch for arch in ("gfx908", "gfx942", "gfx1100", "gfx1201") if not row.runs_on(arch))
    with pytest.raises(BuildError, match=f"{name} needs {row.archs[0]}"):
        compile_hip(source(row), other, cache=None)


@pytest.mark.parametrize(("before", "after"), [
    ("lane_row(int lane) { return (lane & 31)", "lane_row(int lane) { return (lane & 15)"),
    ("index_row(int index) { return (index & 3) + (index >> 2) * 8", "index_row(int index) { return index"),
    ("(j >> 2) * 32 + i, (j & 3)", "(j >> 2) * 32 + i, (j & 1)"),
])
def test_a_wrong_map_does_not_compile(before, after):
    text = source(ROWS["mfma_m32n32k8_f16"])
    assert before in text
    with pytest.raises(BuildError, match="lose or repeat"):
        compile_hip(text.replace(before, after, 1), "gfx90a", cache=None)


@pytest.mark.parametrize("name", EVERY)
def test_the_header_keeps_to_its_lines(name):
    row = EVERY[name]
    text = fragment_header(row)
    assert text == fragment_header(row) and "#include" not in text
    assert all(line == line.rstrip() and len(line) <= 120 for line in text.splitlines())
    assert text.startswith(f"// {header_name(row)}: ") and header_name(row).endswith(".hip.hpp")


def test_a_deep_one_has_a_header_by_its_own_name():
    row = find("mfma_m16n16k16_tf32", "here")
    assert row.instructions == 2 and "By 2 of the instruction" in fragment_header(row)
