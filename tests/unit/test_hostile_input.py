"""What a file, a row or an argument may hold that no one who means well writes: each is refused at once, with exit code 2."""

from __future__ import annotations

import io
import json
import os
import re
import sys
import typing

import numpy as np
import pytest
from test_bad_input import check_refused

from gemmgen.catalog.fragment import FRAGMENTS, Fragment
from gemmgen.catalog.generation import Generation
from gemmgen.catalog.gpu import GENERATIONS, GPUS, Gpu, generation
from gemmgen.catalog.reserved import reserved
from gemmgen.catalog.scheme import SCHEMES, Scheme
from gemmgen.catalog.table import one_line
from gemmgen.catalog.unit import UNITS, MatrixUnit
from gemmgen.cli.output import GREEN, RED, Progress, emit, emit_error, note, paint, shown
from gemmgen.errors import SpecError, UnknownName
from gemmgen.files import TooLarge, read
from gemmgen.solve import solve
from gemmgen.spec import load, loads

FIXED = '[split]\nscheme = "half"\n[tile]\nblock = [32, 32, 16]\nwarp = [32, 16, 16]\n'


# ---- files that are none, or too much of one


def _fifo(path):
    os.mkfifo(path)


def _endless(path):
    path.symlink_to("/dev/zero")


def _huge(path):
    with path.open("wb") as file:
        file.truncate(2 << 30)


def _loop(path):
    path.symlink_to(path)


SPECIAL = {"a FIFO": (_fifo, "not a regular file"), "an endless device": (_endless, "not a regular file"), "2 GB": (_huge, "more than 65536 bytes"),
           "a loop of links": (_loop, "")}


@pytest.mark.parametrize(("make", "told"), SPECIAL.values(), ids=SPECIAL)
@pytest.mark.parametrize("command", [
    ("build", "--source", "{}"), *(("list", table, "{}") for table in ("gpus", "schemes", "fragments")), ("build", "--source", "{spec}", "--gpu", "{}"),
])
def test_a_spec_or_row_that_is_no_file(gemmgen, write_spec, tmp_path, make, told, command):
    path = tmp_path / "x.toml"
    make(path)
    check_refused(gemmgen(*(part.format(path, spec=write_spec(FIXED)) for part in command)), told)


@pytest.mark.parametrize(("make", "told"), [(_fifo, "not a regular file"), (_endless, "not a regular file"), (_huge, "not a whole .npy file"), (_loop, "cannot be read")])
def test_a_matrix_that_is_no_file(gemmgen, write_spec, tmp_path, make, told):
    path = tmp_path / "x.npy"
    make(path)
    check_refused(gemmgen("verify", write_spec(FIXED), "--a", path, "--b", path), told)


def test_a_file_is_read_up_to_its_bound(tmp_path):
    path = tmp_path / "x"
    path.write_bytes(b"abc")
    assert read(path, 3) == b"abc"
    with pytest.raises(TooLarge, match="more than 2 bytes"):
        read(path, 2)
    with pytest.raises(OSError):
        read("a\0b", 3)


TEXTS = {
    "an integer of 5,000 digits": (f"[problem]\nm = {'9' * 5000}\n", "is not valid TOML"),
    "an integer of 4,000 digits": (f"[problem]\nm = {'9' * 4000}\n", "2147483647"),
    "arrays 5,000 deep": (f"x = {'[' * 5000}{']' * 5000}\n", "is nested too deeply"),
    "tables 9,000 deep": (f"{'.'.join('a' * 9000)} = 1\n", "is nested too deeply"),
    "arrays 9 deep": (f"x = {'[' * 9}{']' * 9}\n", "is nested too deeply"),
    "arrays 8 deep in a table": (f"x = {'[' * 8}{']' * 8}\n", "is nested too deeply"),
    "arrays 7 deep in a table": (f"x = {'[' * 7}{']' * 7}\n", "unknown key"),
    "a key of 60 KB": (f"{'k' * 60_000} = 1\n", "unknown key", "characters)"),
    "a value of 60 KB": (f"[target]\ngpu = \"{'v' * 60_000}\"\n", "characters)"),
    "a byte order mark": ("\ufeff[problem]\nm = 1\n", "byte order mark", "UTF-8 with BOM"),
}


@pytest.mark.slow
@pytest.mark.parametrize(("text", "told"), [(text, told) for text, *told in TEXTS.values()], ids=TEXTS)
def test_a_text_that_is_too_much(gemmgen, tmp_path, text, told):
    path = tmp_path / "x.toml"
    path.write_text(text, encoding="utf-8")
    ran = gemmgen("build", "--source", path)
    check_refused(ran, *told)
    assert len(ran.err) < 6000


def test_utf16_is_named(gemmgen, tmp_path):
    (tmp_path / "x.toml").write_bytes("[problem]".encode("utf-16"))
    check_refused(gemmgen("build", "--source", tmp_path / "x.toml"), "not UTF-16")


def test_what_is_printed_is_obeyed_by_no_terminal_but_for_our_own_colours(capsys, monkeypatch):
    """Of emit, notes, errors and progress alike; a colour that somebody planted is none of ours."""
    text = "a\tb\n\x1b[31mred\x1b]0;title\x07 \x9b2J \u202e\u2066\u2069\u061c \r \x0b \x7f \u200f \udc9b \0"
    safe = "a\tb\n" + r"\x1b[31mred\x1b]0;title\x07 \x9b2J \u202e\u2066\u2069\u061c \r \x0b \x7f \u200f \udc9b \x00"
    Progress("study").step(text)
    emit(text)
    note(text)
    emit_error(SpecError("a", text), as_json=False)
    emit_error(SpecError("a", text), as_json=True)
    out, err = capsys.readouterr()
    assert out.startswith(safe + "\n{") and err == f"study: {safe}\nnote: {safe}\nerror: a: {safe}\n" and json.loads(out[len(safe):])["problem"] == safe
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    for name in ("NO_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    emit(f"{paint('ok', GREEN)} {paint(text, RED)} é")
    assert capsys.readouterr().out == f"\x1b[32mok\x1b[0m \x1b[31m{safe}\x1b[0m é\n"
    latin = io.TextIOWrapper(io.BytesIO(), "ascii")
    assert shown("é", latin) == r"\xe9"


def test_a_message_shows_no_more_than_that_and_obeys_no_one():
    assert [SpecError("a", "b", got=got).as_dict().get("got") for got in (0, "", False, None)] == ["0", "", "False", None]
    error = SpecError("a\x1b[2Jb", "bad\u202e", got="x" * 10_000_000, needs="y" * 10_000_000)
    assert len(str(error)) < 6000 and len(str(error.as_dict())) < 6000
    assert "\x1b" not in str(error) and "\u202e" not in str(error) and r"\x1b[2J" in str(error)
    assert "too large to show" in str(SpecError("a", "b", got=10**5000))
    assert len(str(UnknownName("a", "key", "q" * 10_000_000, ["abc"]))) < 6000


@pytest.mark.parametrize("gpu", ["a100", "h100", "mi300x"])
def test_the_largest_extents_have_a_plan(gpu):
    plan = solve(loads({"problem": dict.fromkeys("mnk", 2**31 - 1), "target": {"gpu": gpu}}))
    assert plan.hints.m == 2**31 - 1 and plan.split_k == 1


def test_a_product_that_no_machine_holds(gemmgen, write_spec):
    sizes = [part for x in "mnk" for part in (f"--{x}", 2**31 - 1)]
    check_refused(gemmgen("verify", write_spec(FIXED), "--device", "emulator", "--quiet", *sizes), "too large for this machine's memory")


# ---- matrices


def _npy(header: str, data: bytes = bytes(64)) -> bytes:
    return b"\x93NUMPY\x02\0" + len(header).to_bytes(4, "little") + header.encode() + data


MATRICES = {
    "extents that are truths": ("{'descr': '<f4', 'fortran_order': False, 'shape': (True, True), }", "is not a matrix"),
    "negative extents": ("{'descr': '<f4', 'fortran_order': False, 'shape': (-4, -4), }", "is not a matrix"),
    "extents beyond any": ("{'descr': '<f4', 'fortran_order': False, 'shape': (1099511627776, 1099511627776), }", "is not a matrix"),
    "more than there is": ("{'descr': '<f4', 'fortran_order': False, 'shape': (2147483647, 2147483647), }", "64 bytes of data"),
    "less than there is": ("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2), }", "64 bytes of data"),
    "a header 9,000 deep": ("(" * 4500 + ")" * 4500, "not a whole .npy file"),
    "tables within tables": ("[" * 900 + "]" * 900, "not a whole .npy file"),
    "a key that is none": ("{{}: 1}", "not a whole .npy file"),
    "arrays for elements": ("{'descr': ('<f4', (2, 2)), 'fortran_order': False, 'shape': (2, 2), }", "type"),
    "an extent of 5,000 digits": ("{'descr': '<f4', 'fortran_order': False, 'shape': (" + "9" * 5000 + ", 4), }", "not a whole .npy file"),
}


@pytest.mark.parametrize(("header", "told"), MATRICES.values(), ids=MATRICES)
def test_a_header_that_cannot_be(gemmgen, write_spec, tmp_path, header, told):
    path = tmp_path / "x.npy"
    path.write_bytes(_npy(header))
    check_refused(gemmgen("verify", write_spec(FIXED), "--a", path, "--b", path), told)


@pytest.mark.parametrize(("dtype", "order"), [("<f4", "C"), (">f4", "C"), ("<f8", "F")])
def test_a_matrix_is_what_numpy_saved(tmp_path, dtype, order):
    from gemmgen.cli.inputs import matrix

    x = np.arange(12).reshape(3, 4).astype(dtype, order=order)
    np.save(tmp_path / "x.npy", x)
    got = matrix("--a", tmp_path / "x.npy", quiet=True)
    assert got.dtype == np.float32 and got.flags.c_contiguous and np.array_equal(got, x)


def test_a_matrix_has_no_more_bytes_than_a_gpu_could_hold(tmp_path, monkeypatch):
    from gemmgen.cli import inputs

    np.save(tmp_path / "x.npy", np.ones((3, 4), np.float32))
    monkeypatch.setattr(inputs, "MOST_BYTES", 48)
    assert inputs.matrix("--a", tmp_path / "x.npy").all()
    monkeypatch.setattr(inputs, "MOST_BYTES", 47)
    with pytest.raises(SpecError, match="is too large") as caught:
        inputs.matrix("--a", tmp_path / "x.npy")
    assert caught.value.got == "48 bytes" and caught.value.needs == "at most 47"


# ---- rows


def edited(folder, name, before, after, tmp_path):
    """A shipped row with one change, as a file."""
    text = (folder / f"{name}.toml").read_text()
    assert re.search(before, text), before
    path = tmp_path / f"{name}.toml"
    path.write_text(re.sub(before, lambda _: after, text, count=1))
    return str(path)


BAD_GPUS = {
    "a quoted rate": ("f16_tflops = .*", 'f16_tflops = "312.0"', "valid number"),
    "an infinite rate": ("dram_gb_per_s = .*", "dram_gb_per_s = inf", "finite"),
    "no number": ("l2_mib = .*", "l2_mib = nan", "number"),
    "an absurd rate": ("dram_gb_per_s = .*", "dram_gb_per_s = 1e30", "1000000"),
    "more multiprocessors than 64 bits": ("sms = 108", "sms = 99999999999999999999", "4096"),
    "one register": (r"\[rates\]", "[limits]\nregisters_per_thread = 1\n[rates]", "64"),
    "registers that have no name": (r"\[rates\]", "[limits]\nregisters_per_thread = 512\n[rates]", "at most 255"),
    "a unit of seven": (r"\[rates\]", "[limits]\nregister_allocation_unit = 7\n[rates]", "32"),
    "half a warp": (r"\[rates\]", "[limits]\nregister_allocation_unit = 48\n[rates]", "whole warps"),
    "AMD's wavefront": (r"\[rates\]", "[limits]\nwarp_size = 64\n[rates]", "warp_size = 32"),
    "AMD's unit": ('matrix_unit = "ampere"', 'matrix_unit = "cdna3"', '"ampere"'),
    "a later unit": ('matrix_unit = "ampere"', 'matrix_unit = "hopper"', '"ampere"'),
    "no generation's": ('arch = "sm_80"', 'arch = "sm_140"', "no table knows those of sm_140"),
    "limits that are no table": (r"vendor = ", 'limits = 3\nvendor = ', "limits"),
    "digits of another script": ('arch = "sm_80"', 'arch = "sm_８０"', "pattern"),
    "a bell": ("NVIDIA A100 SXM4 40 GB", r"A100\u0007", "match pattern"),
    "an escape in the source": ("source = .*", r'source = "a\u001b[2J"', "printable"),
    "a NUL in the source": ("source = .*", r'source = "a\u0000"', "printable"),
    "a source that runs backwards": ("source = .*", r'source = "a\u202e"', "printable"),
}


@pytest.mark.parametrize(("before", "after", "told"), BAD_GPUS.values(), ids=BAD_GPUS)
def test_a_gpu_that_is_none(tmp_path, before, after, told):
    path = edited(GPUS.folder, "a100", before, after, tmp_path)
    with pytest.raises(SpecError, match=re.escape(told)) as refused:
        GPUS.get(path)
    assert "a100.toml" in refused.value.where


def test_a_wavefront_is_the_architectures(tmp_path):
    for name, has, other in (("mi300x", 64, 32), ("rx7900xtx", 32, 64)):
        with pytest.raises(SpecError, match=f"warp_size = {has}"):
            GPUS.get(edited(GPUS.folder, name, r"\[rates\]", f"[limits]\nwarp_size = {other}\n[rates]", tmp_path))


BAD_FRAGMENTS = {
    "a million rows": (r"shape = \[16, 8, 16\]", "shape = [1048576, 8, 16]", "256"),
    "28 copies of a register": (r"registers = \[\[8, 0\], \[0, 8\]\]", f"registers = [{', '.join(['[0, 0]'] * 28)}]", "at most 8 items"),
    "an offset beyond any tile": (r"registers = \[\[8, 0\], \[0, 8\]\]", "registers = [[8, 0], [0, 1267650600228229401496703205376]]", "below 256"),
    "an older architecture than any": ("min_arch = 80", "min_arch = -1", "70"),
    "no columns": (r"shape = \[16, 8, 16\]", "shape = [16, 0, 16]", "greater than or equal to 1"),
}


@pytest.mark.parametrize(("before", "after", "told"), BAD_FRAGMENTS.values(), ids=BAD_FRAGMENTS)
def test_a_fragment_that_is_none(tmp_path, before, after, told):
    with pytest.raises(SpecError, match=told):
        FRAGMENTS.get(edited(FRAGMENTS.folder, "mma_m16n8k16_f16", before, after, tmp_path))


def test_an_instructions_fields_have_bounds(tmp_path):
    for before, after in ((r"m = \[24, 5, 16\]", "m = [24, 5, 0]"), (r"d = \[4, 2, 1\]", "d = [4, 99999999999, 1]"), (r"n = \[17, 6, 8\]", "n = [-1, 6, 8]")):
        with pytest.raises(SpecError):
            FRAGMENTS.get(edited(FRAGMENTS.folder, "tcgen05_m128n16k16_f16", before, after, tmp_path))


@pytest.mark.parametrize("row", [Gpu, Generation, Scheme, MatrixUnit, Fragment])
def test_every_text_of_a_row_is_cleaned_or_has_a_pattern(row):
    """A new field cannot bring raw text into generated code: a str is Title or Prose, matches a pattern, or names a file."""
    def texts(annotation, metadata=()):
        if typing.get_origin(annotation) is typing.Annotated:
            inner, *more = typing.get_args(annotation)
            return texts(inner, (*metadata, *more))
        if annotation is str:
            return [metadata]
        return [found for one in typing.get_args(annotation) for found in texts(one)]

    for name, field in row.model_fields.items():
        for metadata in texts(field.rebuild_annotation()):
            told = [str(one) for one in metadata]
            assert name == "matrix_unit" or any("one_line" in one or "pattern" in one for one in told), f"{row.__name__}.{name}: {told}"


def test_what_breaks_out_of_a_comment_is_made_harmless():
    assert one_line("a */ b /* c\n d ??/ e\\") == "a * / b / * c d ?? / e/"
    for bad in ("\x1b", "\0", "\x07", "\x85", "\u2028", "\u202e", "\u2066"):
        with pytest.raises(ValueError, match="printable"):
            one_line(f"a{bad}b")


def test_generations_are_in_order_and_those_of_the_shipped_rows():
    starts = [first for _, first in GENERATIONS]
    assert starts == sorted(starts)
    assert {unit for unit, _ in GENERATIONS} - {None} == set(UNITS.names())
    assert all(generation(row.arch_number) == row.matrix_unit for row in GPUS.rows())
    assert (generation(86), generation(88), generation(121), generation(999), generation(0x906), generation(0x1151)) == (
        "ampere", "ampere", "blackwell_rtx", None, None, "rdna3")


class TestOnesOwnUnit:
    @pytest.fixture
    def tables(self, tmp_path, monkeypatch):
        """A GPU's row that names a unit's file beside it, and another current folder with a unit of the same name."""
        (tmp_path / "tables" / "units").mkdir(parents=True)
        (tmp_path / "here" / "units").mkdir(parents=True)
        unit = (UNITS.folder / "ampere.toml").read_text().replace('"ampere"', '"u"')
        (tmp_path / "tables" / "units" / "u.toml").write_text(unit)
        (tmp_path / "here" / "units" / "u.toml").write_text("this is none")
        gpu = (GPUS.folder / "a100.toml").read_text().replace('"a100"', '"my_gpu"').replace('"ampere"', '"units/u.toml"')
        (tmp_path / "tables" / "my_gpu.toml").write_text(gpu)
        monkeypatch.chdir(tmp_path / "here")
        return tmp_path / "tables"

    def test_is_sought_beside_the_gpus_row(self, tables, write_spec):
        row = GPUS.get(str(tables / "my_gpu.toml"))
        assert row.unit.name == "u" and row.model_copy().unit.name == "u"
        assert solve(load(write_spec(FIXED + '[target]\ngpu = "tables/my_gpu.toml"\n'))).gpu.unit.name == "u"

    def test_is_reported_where_it_is(self, tables):
        (tables / "units" / "u.toml").write_text('name = "u"\n')
        with pytest.raises(SpecError) as refused:
            GPUS.get(str(tables / "my_gpu.toml"))
        assert "units/u.toml" in refused.value.where and "specs/gpus" not in refused.value.where

    def test_a_name_that_is_none_is_reported_in_the_row(self, tables):
        text = (tables / "my_gpu.toml").read_text()
        (tables / "my_gpu.toml").write_text(text.replace('"units/u.toml"', '"amper"'))
        with pytest.raises(UnknownName) as refused:
            GPUS.get(str(tables / "my_gpu.toml"))
        assert refused.value.where.endswith("tables/my_gpu.toml: matrix_unit")


def test_a_scheme_has_bounds(tmp_path):
    with pytest.raises(SpecError, match="126"):
        SCHEMES.get(edited(SCHEMES.folder, "ootomo", 'word = "f16"', 'word = "f16"\ntarget_exponent = 99999999999999999999', tmp_path))


# ---- what is written


@pytest.mark.parametrize("output", ["n" * 300, "n" * 300 + "/x.cu", "n" * 300 + "/", "a/" * 3000 + "x.cu"])
def test_a_name_that_no_file_can_have(gemmgen, write_spec, tmp_path, monkeypatch, output):
    monkeypatch.chdir(tmp_path)
    spec = write_spec(FIXED)
    check_refused(gemmgen("build", "--source", spec, "-o", output), "cannot be written", "too long")
    assert [path.name for path in tmp_path.iterdir() if path.suffix] == ["spec.toml"]


def test_a_spec_is_not_overwritten(gemmgen, write_spec, tmp_path):
    spec = write_spec(FIXED)
    before = spec.read_bytes()
    check_refused(gemmgen("build", "--source", spec, "-o", spec), "spec.toml", "another ending")
    (tmp_path / "link.cu").symlink_to(spec)
    check_refused(gemmgen("build", "--source", spec, "-o", tmp_path / "link.cu"), "another ending")
    assert spec.read_bytes() == before


def test_an_export_to_a_name_that_no_folder_can_have(tmp_path):
    from gemmgen import export
    from gemmgen.errors import GemmgenError
    from test_export import prepared

    for name in ("n" * 300, "a\0b"):
        with pytest.raises(GemmgenError, match="cannot be written"):
            export.export(*prepared(), tmp_path / name, name="lab_gemm")
    assert list(tmp_path.iterdir()) == []


# ---- names of exported libraries


@pytest.mark.parametrize("name", [
    "printf", "abs", "free", "malloc", "int32_t", "NULL", "EOF", "INT32_MAX", "EINVAL", "float4", "dim3", "threadIdx", "cudaMalloc", "cuInit", "hipMalloc",
    "sqrtf", "memcpy", "strlen", "isnan", "std", "class", "restrict", "FILE", "errno", "stdin", "atomicAdd", "half2", "main", "y0", "clock_gettime", "PRId64",
])
def test_a_name_that_is_taken(gemmgen, write_spec, tmp_path, name):
    check_refused(gemmgen("export", write_spec(FIXED), "-o", tmp_path / "out", "--name", name), name, f"--name my_{name}")
    assert not reserved(f"my_{name}") or name.endswith("_t")
    assert not (tmp_path / "out").exists()


def test_a_name_that_the_exported_files_use(tmp_path):
    from gemmgen import export
    from test_export import prepared

    for name in ("product", "a", "alpha"):
        with pytest.raises(SpecError, match="in the exported files already"):
            export.export(*prepared(), tmp_path / "out", name=name)


def test_names_of_each_family_are_taken_and_words_whatever_their_case():
    """Words are names of files and of CMake's targets too, which some systems tell apart by no case."""
    families = (
        "lgamma_r sinf128 roundevenl size_t strtok_r gmtime_np getc_unlocked daddl ffma f32addf64 be32toh htole64 mkostemps mkstemp64 fopen64 tmpfile64"
        " strcoll_l isalphax towx memx strx wcsx pthread_x mtx_x cnd_x tss_x timespec_x cudaX cu3 hipX nvX texX surfX atomicX uchar1 int4 ulonglong2 double4_16a"
        " BUFSIZ SCNu8 M_PI L_tmpnam P_tmpdir"
    )
    assert [name for name in families.split() if not reserved(name)] == []
    assert [name for name in ("Math", "Install", "New", "Test") if not reserved(name)] == []
    assert [name for name in ("sinf129", "sizes", "be_toh", "strcoll_x", "wc", "mtx", "int5", "double4_a", "m_pi", "l_x") if reserved(name)] == []


def test_names_that_are_free():
    assert not [name for name in ("sgemm", "my_sgemm", "lab_gemm", "strassen_gemm", "torch_gemm", "cuda_sgemm", "half_gemm", "x") if reserved(name)]
