"""Vendors and policies are rows: nobody else compares their names, and what a row names is there."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

import gemmgen
from gemmgen.catalog import policy
from gemmgen.catalog.fragment import FRAGMENTS
from gemmgen.catalog.gpu import GPUS
from gemmgen.catalog.policy import POLICIES, UNAVAILABLE, owners
from gemmgen.catalog.vendor import VENDORS, Checked, Files, Frameworks, Vendor, vendor_of
from gemmgen.errors import InfeasibleSpec
from gemmgen.paths import TEMPLATES
from gemmgen.solve import solve
from gemmgen.spec import loads

PACKAGE = Path(gemmgen.__file__).parent
NAMES = {*VENDORS, *policy.NAMES, *UNAVAILABLE}
ASKING = {"vendor", "policy"}
_QUOTED = re.compile(f"[\"'](?:{'|'.join(map(re.escape, NAMES))})[\"']")
ROOMS = sorted(path for path in PACKAGE.rglob("*.py") if path.relative_to(PACKAGE).parts[0] != "catalog")


def _names(node: ast.expr) -> Iterator[str]:
    """The strings that one side of a comparison is, or holds."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, (ast.Tuple, ast.List, ast.Set)):
        for element in node.elts:
            yield from _names(element)


def comparisons(text: str, *, mnemonics: bool = False) -> list[int]:
    """Lines that compare something with a vendor's or policy's name, or ask which a row's vendor or policy is.

    Args:
        mnemonics: whether strings alone say nothing, since instructions have such names as well.
    """
    if not _QUOTED.search(text):  # most files hold none, and take long to parse
        return []
    found = []
    for node in ast.walk(ast.parse(text)):
        sides: list[ast.expr] = []
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
        elif isinstance(node, ast.MatchValue):
            sides = [node.value]
        asks = any(getattr(side, "attr", getattr(side, "id", "")) in ASKING for side in sides)
        named = any(name in NAMES for side in sides for name in _names(side))
        if named and (asks or not mnemonics):
            found.append(node.lineno)
    return sorted(found)


def test_nobody_compares_a_vendors_or_policys_name():
    found = {str(path): comparisons(path.read_text(), mnemonics=path.relative_to(PACKAGE).parts[0] == "emulate") for path in ROOMS}
    assert not {path: lines for path, lines in found.items() if lines}, "ask the row (gemmgen/catalog/vendor.py, policy.py)"


@pytest.mark.parametrize(("text", "lines"), [
    ('x = gpu.vendor == "amd"', [1]), ('if "mfma" != one.policy:\n    pass', [1]), ('x = policy in ("wgmma", "tcgen05")', [1]),
    ('match vendor:\n    case "amd":\n        pass', [2]), ('x = gpu.vendor == other.vendor', []), ('x = {"nvidia": 1}[gpu.vendor]', []),
    ('x = word == "f32"', []),
])
def test_a_comparison_would_be_noticed(text, lines):
    assert comparisons(text) == lines


def test_an_instructions_name_is_no_policys():
    assert comparisons('x = base != "fma"', mnemonics=True) == [] and comparisons('x = base != "fma"') == [1]
    assert comparisons('x = row.policy != "fma"', mnemonics=True) == [1]


def test_no_template_compares_them():
    texts = {str(path): path.read_text() for path in TEMPLATES.rglob("*.j2")}
    assert texts and not [path for path, text in texts.items() if re.search(r"\b(vendor|policy) *(==|!=|in\b|not in\b)", text)]


# ---- what the rows name


@pytest.mark.parametrize("row", VENDORS.values(), ids=VENDORS)
def test_what_a_vendors_row_names_is_there(row):
    for folder in ("platform", "export/platform"):
        assert (TEMPLATES / folder / f"{row.platform}.j2").is_file()
    assert (TEMPLATES / row.files.header_template).is_file()
    assert (PACKAGE / "run" / f"{row.platform}.py").is_file()
    package, name = row.checked.emulator
    assert isinstance(getattr(import_module(package), name), type)
    every = {*row.portable_policies.values(), *row.preferred_policies}
    assert all((row.name, one) in POLICIES for one in every)
    assert set(row.portable_policies) == {size for _, size in row.warp_sizes}
    assert (row.most_blocks is None) != (row.most_threads is None)


@pytest.mark.parametrize(("vendor", "threads", "said"), [
    ("nvidia", 128, (2**31 - 1, "2^31 - 1 blocks")), ("amd", 256, ((2**32 - 1) // 256, "2^32 - 1 threads")),
])
def test_the_largest_grid(vendor, threads, said):
    assert VENDORS[vendor].largest_grid(threads) == said


@pytest.mark.parametrize(("arch", "vendor", "lanes"), [
    ("sm_75", "nvidia", 32), ("sm_90a", "nvidia", 32), ("gfx908", "amd", 64), ("gfx950", "amd", 64), ("gfx1030", "amd", 32), ("gfx1201", "amd", 32),
])
def test_a_target_tells_its_vendor_and_its_warps(arch, vendor, lanes):
    from gemmgen.catalog.gpu import arch_number

    row = vendor_of(arch)
    assert (row.name, row.warp_size(arch_number(arch))) == (vendor, lanes)
    assert re.fullmatch(row.arch_pattern, arch)


def test_a_target_of_nobodys():
    with pytest.raises(KeyError):
        vendor_of("spirv64")


def test_standing_says_what_was_never_run():
    assert VENDORS["nvidia"].checked.standing_of("sm_80") is None and VENDORS["nvidia"].checked.emulates("sm_80")
    assert "executed by an interpreter" in VENDORS["amd"].checked.standing_of("gfx942")
    assert "not emulated" in VENDORS["amd"].checked.standing_of("gfx908") and not VENDORS["amd"].checked.emulates("gfx908")


@pytest.mark.parametrize("row", POLICIES.values(), ids=lambda row: f"{row.vendor} {row.name}")
def test_a_policys_row_is_whole(row):
    assert (TEMPLATES / "atoms" / row.atom).is_file() and row.vendor in VENDORS
    assert row.from_shared or not row.in_tensor_memory
    assert (row.builtin_call is not None) == VENDORS[row.vendor].lists_targets and row.by_place == (row.on_matrix_unit and VENDORS[row.vendor].lists_targets)
    assert row.on_matrix_unit == (row.engine == "matrix unit") == (row.arithmetic is None)
    assert any((one.vendor, one.policy) == (row.vendor, row.name) for one in FRAGMENTS.rows()), "no fragment has it"


def test_one_name_may_be_two_policies():
    assert owners("wmma") == ("nvidia", "amd") and owners("mfma") == ("amd",) and owners("fma") == ("nvidia", "amd") and owners("rocwmma") == ()
    nvidia, amd = POLICIES["nvidia", "wmma"], POLICIES["amd", "wmma"]
    assert nvidia.by_stride and not nvidia.by_lanes and amd.by_lanes and not amd.by_stride


def test_a_policy_that_there_are_no_kernels_of_is_refused_with_the_reason():
    with pytest.raises(InfeasibleSpec) as refused:
        solve(loads({"split": {"scheme": "ootomo"}, "fragment": {"policy": "rocwmma"}, "target": {"gpu": "mi300x"}}))
    assert refused.value.problem == "there are no kernels on rocWMMA's fragments" and refused.value.got == "rocwmma"
    assert refused.value.needs.startswith("rocWMMA's headers") and refused.value.remedy == 'policy = "mfma", on the matrix instructions themselves'


def test_a_fragment_asks_its_rows():
    mma, mfma = FRAGMENTS.get("mma_m16n8k16_f16"), FRAGMENTS.get("mfma_m32n32k8_f16")
    assert (mma.rows_together, mfma.rows_together) == (8, 32)
    assert mma.maker is VENDORS["nvidia"] and mfma.interface is POLICIES["amd", "mfma"]
    assert mfma.call("x", "y", "z") == "__builtin_amdgcn_mfma_f32_32x32x8f16(x, y, z, 0, 0, 0)"
    assert FRAGMENTS.get("rdna3_m16n16k16_s8").call("x", "y", "z").endswith("(true, x, true, y, z, false)")


@pytest.mark.parametrize("name", GPUS.names())
def test_every_gpus_portable_policy_has_fragments(name):
    gpu = GPUS.get(name)
    mine = [one for one in FRAGMENTS.rows() if (one.vendor, one.policy) == (gpu.vendor, gpu.portable_policy)]
    assert any(one.runs_on(gpu.arch) for one in mine)


@pytest.mark.parametrize("row", [Vendor, Files, Checked, Frameworks])
def test_a_vendors_row_is_in_parts_that_one_takes_in_at_a_glance(row):
    known = {name for name in (*vars(row), *row.__dataclass_fields__) if not name.startswith("_")}
    assert len(known) <= 25
