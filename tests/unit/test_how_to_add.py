"""The pages that tell how to add a row, carried out: files written, commands run in an empty folder, and what they are said to print."""

from __future__ import annotations

import json
import os
import re
import runpy
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass, replace

import pytest

from gemmgen import road
from gemmgen.catalog.fragment import FRAGMENTS
from gemmgen.catalog.table import _files
from gemmgen.paths import SPECS
from gemmgen.workshop.explore.own_rows import kept
from gemmgen.workshop.explore.store import Store, Writer

ROOT = SPECS.parent
PAGES = {path.stem.removeprefix("add-").split("-", 1)[1]: path.read_text() for path in sorted((ROOT / "docs").glob("add-*.md"))}
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.S | re.M)


@dataclass
class Page:
    """What carrying out a page left.

    Attributes:
        commands: that were run; files: that were written; said: lines that the page shows and that were printed.
    """

    commands: int = 0
    files: int = 0
    said: int = 0


def one_spaced(text: str) -> str:
    return " ".join(text.split())


@pytest.fixture
def carry_out(tmp_path, monkeypatch, gemmgen, capsys):
    """Carries out a page's blocks in order, in an empty folder with a copy of `specs/fragments`."""
    shutil.copytree(FRAGMENTS.folder, tmp_path / "specs" / "fragments")
    monkeypatch.setattr(FRAGMENTS, "folder", tmp_path / "specs" / "fragments")
    monkeypatch.chdir(tmp_path)

    def in_a_process(*arguments: str, module: tuple[str, ...] = ("-m", "gemmgen")) -> subprocess.CompletedProcess[str]:
        path = os.pathsep.join((str(tmp_path), str(ROOT)))
        return subprocess.run(
            [sys.executable, *module, *arguments], cwd=tmp_path, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True,
        )

    def run(command: str) -> str:
        program, *arguments = shlex.split(command)
        if program == "!":
            ran = in_a_process(*arguments[1:])
            assert arguments[0] == "gemmgen" and ran.returncode == 2, f"{command}: {ran.stdout}"
            return ran.stderr
        # What is installed is found, and what is edited is read, when a process starts.
        if program == "gemmgen" and (list(tmp_path.glob("*.dist-info")) or (tmp_path / "gemmgen").is_dir()):
            ran = in_a_process(*arguments)
            assert ran.returncode == 0, f"{command}: {ran.stderr}"
            return ran.stdout
        if program == "gemmgen":
            ran = gemmgen(*arguments)
            assert ran.code == 0, f"{command}: {ran.err}"
            return ran.out
        if program == "cp":
            [source, folder] = arguments
            shutil.copy(source, folder)
            _files.cache_clear()  # as the next command's own process would look
            return ""
        if program == "cat":
            return (tmp_path / arguments[0]).read_text()
        if program == "cc" or program.startswith("./"):
            ran = subprocess.run([program, *arguments], cwd=tmp_path, capture_output=True, text=True)
            assert ran.returncode == 0, f"{command}: {ran.stderr}"
            return ran.stdout
        assert program == "python", f"{command}: the page's test cannot run this"
        if (tmp_path / arguments[0]).is_file():
            ran = in_a_process(*arguments, module=())
            assert ran.returncode == 0, f"{command}: {ran.stderr}"
            return ran.stdout
        monkeypatch.setattr(sys, "argv", arguments)
        capsys.readouterr()
        with pytest.raises(SystemExit) as left:
            runpy.run_path(str(ROOT / arguments[0]), run_name="__main__")
        assert not left.value.code
        return capsys.readouterr().out

    def edit(change: str) -> None:
        """Makes one change in a copy of the checkout."""
        for folder in ("gemmgen", "templates", "specs"):
            shutil.copytree(ROOT / folder, tmp_path / folder, dirs_exist_ok=True)  # with its times, so that compiled modules serve, too
        first, *lines = change.splitlines(keepends=True)
        file = tmp_path / first.removeprefix("# ").strip()
        before, after = ("".join(line[1:] for line in lines if line[0] in sides) for sides in (" -", " +"))
        assert file.read_text().count(before) == 1, f"{first}: the file does not have what is changed"
        file.write_text(file.read_text().replace(before, after))

    def carry(text: str) -> Page:
        done, printed = Page(), ""
        for language, content in BLOCK.findall(text):
            if language in ("toml", "python", "jinja", "ini", "c"):
                file = re.match(r"(?:%?#|//) (\S+\.\w+)\n", content)
                assert file, f"a block that says no file: {content[:60]}"
                (tmp_path / file[1]).parent.mkdir(parents=True, exist_ok=True)
                (tmp_path / file[1]).write_text(content)
                done.files += 1
            elif language == "diff":
                edit(content)
                done.files += 1
            elif language in ("", "sh"):
                lines = [line for line in content.splitlines() if line]
                printed = "".join(run(line) for line in lines)
                done.commands += len(lines)
            else:
                assert language == "text", language
                for line in content.splitlines():
                    assert one_spaced(line) in one_spaced(printed), f"{line!r} was not printed: {printed}"
                    done.said += 1
        return done

    return carry


def test_a_gpu_is_added_as_its_page_says(carry_out, tmp_path):
    first, measured = PAGES["gpu"].split("## 4. ")
    done = [carry_out(first)]
    own = kept(road.load({"target": {"gpu": str(tmp_path / "my_gpu" / "my_gpu.toml")}}))
    writer = Writer(tmp_path / "my_store")  # the times of another GPU stand in for those of the reader's own
    for row in Store(ROOT / "docs" / "results" / "times_h100").rows("m <= 1024 and policy = 'mma'")[::8][:40]:
        writer.add(replace(row, gpu="my_gpu", identity="", extra=json.dumps({"own": own})))
    writer.close()
    done.append(carry_out(measured))
    assert tuple(sum(getattr(one, what) for one in done) for what in ("files", "commands", "said")) == (4, 9, 26)
    assert (tmp_path / "my_kernel.cu").is_file() and list((tmp_path / "my_build").glob("*.cubin"))


ADDED = {
    # a page: (files, commands and lines that it says are printed, what the kernel's text has then)
    "scheme": ((2, 4, 6), ("my_scheme",)),
    "fragment": ((2, 6, 5), ("mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32",)),
    "design": ((5, 5, 12), ("2 rows of warps together", "WARP_ROWS = 2;")),
    "schedule": ((4, 2, 5), ("raster_columns",)),
    "policy": ((4, 2, 6), ("load_pair",)),
    "output-type": ((4, 4, 7), ("u32* __restrict__ c", "stored as TF32")),
    "epilogue": ((4, 4, 8), ("x = silu(x);", "const float* __restrict__ bias")),
    "kind": ((4, 5, 11), ("const int to_stage = min(stages_k, (m0 + TILE_M + BLOCK_K - 1) / BLOCK_K);", "of an A with zeros above its diagonal")),
}


@pytest.mark.parametrize("page", [page if page in ("scheme", "fragment") else pytest.param(page, marks=pytest.mark.slow) for page in ADDED])
def test_it_is_added_as_its_page_says(page, carry_out, tmp_path):
    counts, says = ADDED[page]
    done = carry_out(PAGES[page])
    assert (done.files, done.commands, done.said) == counts
    text = (tmp_path / "my_kernel.cu").read_text()
    assert not [one for one in says if one not in text and one not in one_spaced(text.replace("//", ""))]
    assert page != "policy" or "ldmatrix.sync" not in text
    assert "my_mma_m16n8k8_bf16" not in {path.stem for path in (SPECS / "fragments").glob("*.toml")}


def test_an_epilogue_and_a_kind_are_short():
    """The files that the page on an epilogue writes have fewer than 40 lines together; the page on a kind has fewer than 450."""
    written = re.findall(r"^```(?:python|ini)\n(.*?)^```$", PAGES["epilogue"], re.S | re.M)
    assert len(written) >= 2 and sum(len(one.splitlines()) for one in written) < 40
    assert len(PAGES["kind"].splitlines()) < 450


@pytest.mark.long
def test_a_first_change_is_made_as_its_page_says(carry_out, tmp_path):
    """A scheme, an epilogue and a kind, one after the other in one folder."""
    done = carry_out((ROOT / "docs" / "your-first-change.md").read_text())
    assert (done.files, done.commands, done.said) == (8, 6, 13)
    assert "0.01f * x" in (tmp_path / "my_layer.cu").read_text() and "!(column <= row)" in (tmp_path / "my_triangle.cu").read_text()
    assert len((tmp_path / "gemmgen_below.py").read_text().splitlines()) < 40
    step = tmp_path / "gemmgen_leaky.py"  # the fault that the page asks for
    step.write_text(step.read_text().replace("0.01f", "0.02f", 1))
    path = os.pathsep.join((str(tmp_path), str(ROOT)))
    ran = subprocess.run(
        [sys.executable, "-m", "gemmgen", "verify", "my_layer.toml"], cwd=tmp_path, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True,
    )
    assert ran.returncode == 1 and "FAILED permutation" in one_spaced(ran.stdout), ran.stdout


@pytest.mark.long
@pytest.mark.parametrize(("name", "counts"), [("new-gpu", (3, 5, 7)), ("embed", (4, 7, 14)), ("explore", (3, 8, 10))])
def test_a_tutorial_is_carried_out(carry_out, name, counts):
    done = carry_out((ROOT / "docs" / "tutorials" / f"{name}.md").read_text())
    assert (done.files, done.commands, done.said) == counts


@pytest.mark.parametrize(("text", "told"), [
    ("```\ngemmgen list gpus nonesuch\n```\n", "nonesuch"), ("```\nrm -r specs\n```\n", "cannot run"), ("```toml\nname = 1\n```\n", "says no file"),
    ("```\ngemmgen list gpus a100\n```\n\n```text\nNVIDIA H100\n```\n", "was not printed"),
])
def test_a_page_that_is_wrong_would_be_noticed(carry_out, text, told):
    with pytest.raises(AssertionError, match=told):
        carry_out(text)
