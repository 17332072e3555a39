"""What a killed process leaves half written: the next writer clears it away, loses nothing by it, and touches nothing that another writes."""

from __future__ import annotations

import json
import multiprocessing
import os
import shutil
import signal
from pathlib import Path

import pytest

from gemmgen import files
from gemmgen.cli.output import write_paths
from gemmgen.errors import GemmgenError
from gemmgen.export import folder
from gemmgen.export.manifest import MANIFEST
from gemmgen.workshop.explore.store.places import Folder


@pytest.fixture(scope="module")
def fresh():
    """Processes that are forked from one that has no threads: forked from this one, whose libraries may have some, they could wait for ever."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["pytest", "gemmgen.cli.output", "gemmgen.export.folder", "gemmgen.workshop.explore.store.places"])
    return context


def _leaves(final: Path, content: bytes, is_folder: bool, tell) -> None:
    with files.unfinished(final, folder=is_folder) as beside:
        if beside.is_file():
            beside.write_bytes(content)
        tell.send(str(beside))
        signal.pause()


def left_by(fresh, final: Path, content: bytes = b"half", *, folder: bool = False):
    """(a living process that writes a file beside `final`, the file)."""
    told, tell = fresh.Pipe(duplex=False)
    child = fresh.Process(target=_leaves, args=(final, content, folder, tell), daemon=True)
    child.start()
    tell.close()  # else one that ended without a word would be waited for
    assert told.poll(60), "the process has begun nothing"
    return child, Path(told.recv())


def killed(child) -> None:
    child.kill()
    child.join(60)
    assert child.exitcode == -signal.SIGKILL


@pytest.mark.parametrize("is_folder", [False, True])
@pytest.mark.parametrize("name", ["x.json", "n" * 250, "a b*[é"])
def test_only_what_dead_processes_left_is_swept(fresh, tmp_path, is_folder, name):
    child, beside = left_by(fresh, tmp_path / name, folder=is_folder)
    other, of_another_name = left_by(fresh, tmp_path / "y")
    killed(other)
    mine = tmp_path / f".{name[:20]}.mine.unfinished"
    mine.write_text("no leftover")
    try:
        with files.unfinished(tmp_path / name) as second:
            assert beside.exists() and second != beside and second.parent == tmp_path
    finally:
        killed(child)
    assert beside.is_dir() == is_folder and not second.exists() and of_another_name.exists()
    files.sweep(tmp_path, name)
    assert not beside.exists() and of_another_name.exists()
    files.sweep(tmp_path)
    assert list(tmp_path.iterdir()) == [mine]
    files.sweep(tmp_path / "nowhere")


def test_a_file_that_was_swept_before_it_was_locked_is_made_again(tmp_path, monkeypatch):
    """By a process that came between the two."""
    given, tries = files._locked, []

    def locked(path, **how):
        tries.append(path)
        if len(tries) == 1:
            path.unlink()
        if len(tries) == 2:
            raise BlockingIOError
        return given(path, **how)

    monkeypatch.setattr(files, "_locked", locked)
    with files.unfinished(tmp_path / "x", sweeping=False) as beside:
        assert beside == tries[2] and beside.exists()
    number = os.open(beside.parent, os.O_RDONLY)
    monkeypatch.setattr(os, "open", lambda *arguments, **how: os.dup(number))
    beside.mkdir()
    with pytest.raises(FileNotFoundError):  # another file has its name by now
        given(beside)
    monkeypatch.undo()
    os.close(number)


def test_without_locks_nothing_is_swept(fresh, tmp_path, monkeypatch):
    child, beside = left_by(fresh, tmp_path / "x")
    killed(child)

    def none(*_):
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(files.fcntl, "flock", none)
    with files.unfinished(tmp_path / "x") as mine:
        assert mine.exists()
    assert beside.exists() and not mine.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_what_another_user_left_is_not_touched(fresh, tmp_path):
    child, beside = left_by(fresh, tmp_path / "x", folder=True)
    killed(child)
    os.chown(beside, 12345, 12345)
    files.sweep(tmp_path, "x", undo=lambda left: pytest.fail("undone"))
    assert beside.exists()


@pytest.mark.parametrize("write", [
    lambda path: write_paths({path: "new"}), lambda path: Folder(path.parent).put(path.name, b"new"),
], ids=["file", "store"])
def test_the_next_writer_clears_away_what_a_killed_one_left(fresh, tmp_path, write):
    child, beside = left_by(fresh, tmp_path / "x")
    write(tmp_path / "x")
    assert beside.exists()
    killed(child)
    write(tmp_path / "x")
    assert [path.name for path in tmp_path.iterdir()] == ["x"] and (tmp_path / "x").read_bytes() == b"new"


def exported(name: str, *names: str) -> dict[str, bytes]:
    contents = {one: f"{name} {one}".encode() for one in names}
    told = {"generator": "gemmgen 1", "schema_version": 1, "sha256": {**dict.fromkeys(names, ""), "kernels": ""}}
    return {**contents, MANIFEST: json.dumps(told).encode()}


def contents(target: Path) -> dict[str, bytes]:
    return {str(path.relative_to(target)): path.read_bytes() for path in target.rglob("*") if path.is_file()}


OLD, NEW = exported("old", "a.cu", "src/b.h", "gone.txt"), exported("new", "a.cu", "src/b.h", "more/c.h")


def _dies_after(count: int, act) -> bool:
    """Whether a process that does this dies before its move of that number."""
    child = os.fork()
    if not child:
        left, given = [count], os.rename

        def rename(*arguments, **how):
            if not left[0]:
                os._exit(9)
            left[0] -= 1
            given(*arguments, **how)

        os.rename = rename
        try:
            act()
            os._exit(0)
        finally:
            os._exit(1)  # whatever it raised
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code in (0, 9)
    return code == 9


def _killed_between_moves(folder_of_all: Path, moves: int) -> None:
    target = folder_of_all / "out"
    folder.put(target, False, lambda: OLD)
    (target / "mine.txt").write_text("mine")
    died = _dies_after(moves, lambda: folder.put(target, False, lambda: NEW))
    assert died == (moves < 8)
    staged = [path.name for path in folder_of_all.iterdir() if path != target]
    assert len(staged) == died
    again = folder_of_all.with_name(f"{folder_of_all.name}-again") / "out"
    shutil.copytree(folder_of_all, again.parent)
    steps = 0
    while _dies_after(steps, lambda: files.sweep(again.parent, "out", lambda left: folder._taken_back(left, again))):
        steps += 1
    for place in (again, target):
        files.sweep(place.parent, "out", lambda left, place=place: folder._taken_back(left, place))
        assert contents(place) == {**(OLD if died else NEW), "mine.txt": b"mine"}
        assert [path.name for path in place.parent.iterdir()] == ["out"]
    folder.put(target, False, lambda: NEW)
    assert contents(target) == {**NEW, "mine.txt": b"mine"} and [path.name for path in folder_of_all.iterdir()] == ["out"]


@pytest.mark.parametrize("moves", range(9))
def test_an_export_killed_between_two_moves_is_taken_back_and_nothing_is_lost(fresh, tmp_path, moves):
    """Killed again at each step while it is taken back, too."""
    child = fresh.Process(target=_killed_between_moves, args=(tmp_path, moves), daemon=True)
    child.start()
    child.join(60)
    assert child.exitcode == 0


@pytest.mark.parametrize("fails", [None, *range(9)])
def test_where_there_is_a_manifest_the_export_is_whole(tmp_path, monkeypatch, fails):
    """After every move: of an export over an earlier one, of one that fails between two moves, and where what a killed one left is taken back."""
    target = tmp_path / "out"
    folder.put(target, False, lambda: OLD)
    moves, given = [], os.rename

    def rename(*arguments, **how):
        if len(moves) == fails:
            moves.append("refused")
            raise OSError(28, "No space left on device")
        given(*arguments, **how)
        moves.append(str(arguments[1]))
        if (target / MANIFEST).exists():
            whole = OLD if (target / MANIFEST).read_bytes() == OLD[MANIFEST] else NEW
            assert {name: (target / name).read_bytes() for name in whole if (target / name).exists()} == whole, f"after {moves}"

    monkeypatch.setattr(os, "rename", rename)
    if fails is None or fails == 8:
        folder.put(target, False, lambda: NEW)
        assert len(moves) == 8 and contents(target) == NEW
    else:
        with pytest.raises(GemmgenError, match="cannot be written"):
            folder.put(target, False, lambda: NEW)
        assert len(moves) == 2 * fails + 1 and contents(target) == OLD
    moves.clear()
    left, fails = tmp_path / "left", None
    for place in ("new", "old"):
        (left / place / "src").mkdir(parents=True)
    for name, content in contents(target).items():
        (target / name).unlink()
        (left / "old" / name).parent.mkdir(exist_ok=True, parents=True)
        (left / "old" / name).write_bytes(content)
    (left / "new" / "a.cu").write_bytes(b"")
    (left / folder.MOVES).write_text(json.dumps(["a.cu"]))
    whole = contents(left / "old")
    folder._taken_back(left, target)
    assert contents(target) == whole and len(moves) == len(whole)


def test_an_export_goes_on_where_a_killed_one_stopped(tmp_path, monkeypatch):
    """The manifest of the earlier export lies in the leftover: without it the folder would be somebody else's."""
    target = tmp_path / "out"
    folder.put(target, False, lambda: OLD)
    left = tmp_path / ".out.0123456789ab.unfinished"
    (left / "new").mkdir(parents=True)
    (left / "old").mkdir()
    (left / folder.MOVES).write_text(json.dumps([*NEW, "../x", "/etc/x", 5]))
    (tmp_path / "x").write_text("outside")
    for name in ("a.cu", MANIFEST):
        (target / name).rename(left / "old" / name)
    for name in ("src/b.h", "more/c.h", MANIFEST):  # a.cu is in place already
        (left / "new" / name).parent.mkdir(exist_ok=True)
        (left / "new" / name).write_bytes(NEW[name])
    (target / "a.cu").write_bytes(NEW["a.cu"])
    folder.put(target, False, lambda: NEW)
    assert contents(target) == NEW and sorted(path.name for path in tmp_path.iterdir()) == ["out", "x"]


def test_a_long_name_of_letters_of_two_bytes_can_be_written_and_its_leftovers_are_swept(fresh, tmp_path):
    """File systems count bytes: a name of 250 leaves none for what an unfinished one adds."""
    final = tmp_path / ("\u00e9" * 125)
    child, beside = left_by(fresh, final)
    killed(child)
    with files.unfinished(final) as mine:
        assert not beside.exists() and mine.exists() and len(os.fsencode(mine.name)) < 200
    assert list(tmp_path.iterdir()) == []


def test_leftovers_of_a_name_with_a_line_end_are_swept(fresh, tmp_path):
    child, beside = left_by(fresh, tmp_path / "two\nlines")
    killed(child)
    files.sweep(tmp_path)
    assert not beside.exists()


def test_what_is_no_regular_file_leaves_nothing_open(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    before = len(os.listdir("/proc/self/fd"))
    for name, error in (("fifo", files.NotRegular), (".", IsADirectoryError), ("fifo", files.NotRegular)):
        with pytest.raises(error):
            files.read(tmp_path / name, 10)
    assert len(os.listdir("/proc/self/fd")) == before
