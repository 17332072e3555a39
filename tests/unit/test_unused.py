"""What a kernel's text leaves out: helpers and constants that nothing names."""

from __future__ import annotations

import pytest

from gemmgen.unused import without_unused

KERNEL = 'extern "C" __global__ void kernel(float* c) {\n    c[0] = %s;\n}'


def text(*parts: str, uses: str) -> str:
    return "\n\n".join((*parts, KERNEL % uses))


@pytest.mark.parametrize("idle", [
    "GG_DEVICE float idle(float x) { return x; }",
    "GG_DEVICE float idle(float x) { return x; }  // of nothing",
    "// What nobody asks for.\ntemplate <int N>\nGG_DEVICE float idle(float (&x)[N]) {\n    return x[0];\n}",
    "GG_DEVICE void idle(\n    float x,\n    int y)\n{\n    if (y) {\n    }\n}",
    "// It calls itself by name in a comment: idle\nGG_DEVICE float idle() {\n    return 0.0f;  // idle\n}",
    "template <int N>\nGG_DEVICE float idle(float (&x)[N]) {\n    return x[0];\n}",
    'GG_DEVICE void idle(float x) { asm("idle.sync %0;" ::"f"(x)); }',
    "constexpr int IDLE = 4;",
    "constexpr int IDLE = 4, WORSE = 5;  // both",
    "GG_DEVICE float inner() { return 1.0f; }\n\nGG_DEVICE float idle() { return inner(); }",
    "constexpr int EDGE = 8;\nconstexpr int IDLE = EDGE * 2;",
], ids=["a line", "a remark behind", "a template", "many lines", "named in remarks", "a template alone", "named in assembly", "a constant", "two constants", "by another", "edge"])
def test_what_nothing_names_is_left_out(idle):
    used = "GG_DEVICE float used() { return 2.0f; }"
    assert without_unused(text(idle, used, uses="used()")).strip("\n") == text(used, uses="used()")


@pytest.mark.parametrize("used", [
    "GG_DEVICE float used(float x) { return x; }\nGG_DEVICE float used(int x) { return (float)x; }",
    "constexpr int EDGE = 8;\n\nGG_DEVICE float used() { return EDGE; }",
    "// One that is used.\n//\n// In two parts.\nGG_DEVICE float used() {\n    return 1.0f;\n}",
    "struct Work {\n    int used;\n};",
])
def test_what_something_names_stays(used):
    assert without_unused(text(used, uses="used()")) == text(used, uses="used()")


def test_a_blank_line_behind_stays_where_none_is_before():
    used = "GG_DEVICE float used() { return 2.0f; }"
    assert without_unused(f"{used}\nGG_DEVICE float idle() {{ return 1.0f; }}\n\n{KERNEL % 'used()'}") == text(used, uses="used()")


def test_a_constant_goes_from_among_others_of_its_line():
    assert without_unused(text("constexpr int ROWS = 1, IDLE = 2, COLUMNS = 3;  // of a tile", uses="ROWS * COLUMNS")) == text(
        "constexpr int ROWS = 1, COLUMNS = 3;  // of a tile", uses="ROWS * COLUMNS")


def test_a_constant_of_a_namespace_counts_with_its_namesakes():
    """Each tile of a batch has constants of the same names."""
    tiles = "namespace tile_0 {\nconstexpr int ROWS = 1, IDLE = 1;\n}\nnamespace tile_1 {\nconstexpr int ROWS = 2, IDLE = 1;\n}"
    assert without_unused(text(tiles, uses="tile_0::ROWS")) == text(tiles.replace(", IDLE = 1", ""), uses="tile_0::ROWS")
