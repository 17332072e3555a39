"""The store of built kernels: whole entries or none, whatever happens to the disk."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from gemmgen.build.cache import USER_CACHE, Cache

KEY = "ab" + "0" * 62
PARTS = {"cubin": bytes(range(256)) * 20, "ptx": b"// a\n\nb\n", "log": b""}


@pytest.fixture
def cache(tmp_path):
    return Cache(tmp_path / "not" / "yet" / "there")


def test_what_is_put_is_got(cache):
    assert cache.get(KEY) is None
    assert cache.put(KEY, PARTS)
    assert cache.get(KEY) == PARTS
    assert cache.path(KEY) == cache.root / "binaries" / "ab" / KEY
    assert cache.get("cd" + KEY[2:]) is None


def test_a_new_entry_replaces_the_old_one(cache):
    cache.put(KEY, PARTS)
    cache.put(KEY, {"other": b"1"})
    assert cache.get(KEY) == {"other": b"1"}


def test_every_truncation_is_noticed_and_repaired(cache):
    cache.put(KEY, PARTS)
    whole = cache.path(KEY).read_bytes()
    for size in [*range(0, 200), *range(200, len(whole), 97), len(whole) - 1]:
        cache.path(KEY).write_bytes(whole[:size])
        assert cache.get(KEY) is None
    cache.put(KEY, PARTS)
    assert cache.get(KEY) == PARTS


def test_every_flipped_bit_is_noticed(cache):
    cache.put(KEY, PARTS)
    whole = cache.path(KEY).read_bytes()
    for at in [*range(0, 200), *range(200, len(whole), 97), len(whole) - 1]:
        damaged = bytearray(whole)
        damaged[at] ^= 1
        cache.path(KEY).write_bytes(damaged)
        assert cache.get(KEY) is None
    cache.path(KEY).write_bytes(whole + b"\n")
    assert cache.get(KEY) is None


def test_an_entry_in_the_wrong_place_is_noticed(cache):
    cache.put(KEY, PARTS)
    other = "ab" + "1" * 62
    cache.path(KEY).rename(cache.path(other))
    assert cache.get(other) is None


def test_a_folder_in_an_entrys_place_is_no_entry(cache):
    cache.path(KEY).mkdir(parents=True)
    assert cache.get(KEY) is None
    assert not cache.put(KEY, PARTS)
    assert [path.name for path in cache.path(KEY).parent.iterdir()] == [KEY]  # nothing left behind


def test_a_stale_unfinished_file_does_not_matter(cache):
    cache.path(KEY).parent.mkdir(parents=True)
    (cache.path(KEY).parent / ".unfinished-0123").write_bytes(b"half of")
    assert cache.get(KEY) is None
    assert cache.put(KEY, PARTS)
    assert cache.get(KEY) == PARTS


def test_a_cache_that_cannot_be_written_stays_empty(tmp_path):
    (tmp_path / "file").write_text("a file, where a folder is needed")
    for root in (tmp_path / "file", tmp_path / "file" / "below", "/proc/gemmgen"):
        cache = Cache(root)
        assert not cache.put(KEY, PARTS)
        assert cache.get(KEY) is None


def test_many_writers_and_readers_of_one_entry(cache):
    def write_and_read(number: int):
        cache.put(KEY, {"part": b"%d" % (number % 3) * 50_000})
        return cache.get(KEY)

    with ThreadPoolExecutor(8) as pool:
        for parts in pool.map(write_and_read, range(60)):
            assert set(parts) == {"part"}
            assert parts["part"] in (b"0" * 50_000, b"1" * 50_000, b"2" * 50_000)


class TestWhere:
    @pytest.fixture(autouse=True)
    def home(self, monkeypatch, tmp_path):
        monkeypatch.delenv("GEMMGEN_CACHE", raising=False)
        monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
        monkeypatch.setenv("HOME", str(tmp_path))
        return tmp_path

    def test_below_home(self, home):
        assert USER_CACHE.root == home / ".cache" / "gemmgen"

    def test_below_the_users_cache_folder(self, monkeypatch, home):
        monkeypatch.setenv("XDG_CACHE_HOME", "/var/tmp/c")
        assert str(USER_CACHE.root) == "/var/tmp/c/gemmgen"
        monkeypatch.setenv("XDG_CACHE_HOME", "relative")
        assert USER_CACHE.root == home / ".cache" / "gemmgen"

    def test_where_gemmgen_is_told(self, monkeypatch, home):
        monkeypatch.setenv("XDG_CACHE_HOME", "/var/tmp/c")
        monkeypatch.setenv("GEMMGEN_CACHE", "~/mine")
        assert USER_CACHE.root == home / "mine"
        monkeypatch.setenv("GEMMGEN_CACHE", "")
        assert str(USER_CACHE.root) == "/var/tmp/c/gemmgen"

    def test_off(self, monkeypatch):
        monkeypatch.setenv("GEMMGEN_CACHE", "off")
        assert USER_CACHE.root is None
        assert USER_CACHE.path(KEY) is None
        assert not USER_CACHE.put(KEY, PARTS)
        assert USER_CACHE.get(KEY) is None

    def test_a_folder_given_in_code_wins(self, monkeypatch, tmp_path):
        monkeypatch.setenv("GEMMGEN_CACHE", "off")
        assert Cache(tmp_path).put(KEY, PARTS)
        assert Cache(tmp_path).get(KEY) == PARTS
