"""The store of built kernels and of templates' code: whole entries or none, whatever happens to the disk."""

from __future__ import annotations

import hmac
import os
import stat
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import jinja2
import pytest

from gemmgen import render
from gemmgen.build import build, request, without_line_info
from gemmgen.cache import USER_CACHE, Cache
from gemmgen.errors import CacheWarning, ResourceError

pytestmark = pytest.mark.filterwarnings("ignore::gemmgen.errors.CacheWarning")

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


@pytest.mark.filterwarnings("error")
def test_what_was_refused_is_marked(cache, monkeypatch):
    assert not cache.is_marked_refused("gemmgen_one")
    for _ in range(2):
        cache.mark_refused("gemmgen_one")
        assert cache.is_marked_refused("gemmgen_one") and not cache.is_marked_refused("gemmgen_two")
    (cache.root / "refused" / "gemmgen_two").symlink_to("/nowhere")
    cache.mark_refused("gemmgen_two")
    assert cache.is_marked_refused("gemmgen_two") and not Path("/nowhere").exists()
    monkeypatch.setenv("GEMMGEN_CACHE", "off")
    USER_CACHE.mark_refused("gemmgen_one")
    assert not USER_CACHE.is_marked_refused("gemmgen_one")


def test_a_compile_that_spills_marks_its_kernel_and_one_that_may_does_not(cache):
    spilling = SimpleNamespace(spill_bytes=8, spill_problem="spills", spill_limit="0 B", spill_account="8 B", registers=255)
    compiler = SimpleNamespace(archs=("sm_80",), name="NVRTC", identity="NVRTC")

    def build(kept, **options):
        return request.fulfil(
            request.Request("text", "sm_80", "folder/gemmgen_one.cu", ()), compiler, [], make=lambda: request.Product(b"code", "assembly", "", 1.0),
            read=lambda product: {"gemmgen_one": spilling}, cache=kept, **options)

    for kept in (None, cache):
        build(kept, allow_spills=True)
        assert not cache.is_marked_refused("gemmgen_one")
    with pytest.raises(ResourceError):
        build(None, allow_spills=False)
    assert not cache.is_marked_refused("gemmgen_one")
    with pytest.raises(ResourceError):
        build(cache, allow_spills=False)
    assert cache.is_marked_refused("gemmgen_one")


# ---- what others may have put there


def told_of(cache, call):
    """What `call` gives, and what the cache warned of."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = call()
    assert all(one.category is CacheWarning for one in caught)
    return result, [str(one.message) for one in caught]


def test_what_is_kept_is_the_users_own(cache):
    cache.put(KEY, PARTS)
    for path, mode in ((cache.root, 0o700), (cache.path(KEY).parent, 0o700), (cache.path(KEY), 0o600), (cache.root / "secret", 0o600)):
        assert stat.S_IMODE(path.stat().st_mode) == mode, path
    assert len((cache.root / "secret").read_bytes()) == 32


def test_each_cache_has_a_secret_of_its_own(cache, tmp_path):
    cache.put(KEY, PARTS)
    other = Cache(tmp_path / "other")
    other.put("cd" + KEY[2:], PARTS)
    other.path(KEY).parent.mkdir(mode=0o700)
    other.path(KEY).write_bytes(cache.path(KEY).read_bytes())
    other.path(KEY).chmod(0o600)
    got, told = told_of(other, lambda: other.get(KEY))
    assert got is None and len(told) == 1 and "its checksum is another" in told[0] and str(other.path(KEY)) in told[0]
    assert other.put(KEY, PARTS) and other.get(KEY) == PARTS


def test_the_plain_checksum_of_an_entry_is_not_enough(cache):
    """Whoever knows the format can compute it."""
    import hashlib

    cache.put(KEY, PARTS)
    body = cache.path(KEY).read_bytes().partition(b"\n")[2]
    plain = hashlib.sha256(KEY.encode() + b"\n" + body).hexdigest().encode()
    cache.path(KEY).write_bytes(b"gemmgen cache 3 " + plain + b"\n" + body)
    assert told_of(cache, lambda: cache.get(KEY))[0] is None


@pytest.mark.parametrize("which", ["root", "binaries", "ab", "entry", "secret"])
@pytest.mark.parametrize("mode", [0o020, 0o002])
def test_what_others_may_write_is_not_used(cache, which, mode):
    cache.put(KEY, PARTS)
    path = {"root": cache.root, "binaries": cache.root / "binaries", "ab": cache.path(KEY).parent, "entry": cache.path(KEY), "secret": cache.root / "secret"}[which]
    path.chmod(path.stat().st_mode | mode)
    got, told = told_of(cache, lambda: cache.get(KEY))
    assert got is None and str(path) in told[0] and "chmod go-" in told[0]
    before = cache.path(KEY).read_bytes()
    put, told = told_of(cache, lambda: cache.put(KEY, {"other": b"1"}))
    if which == "entry":  # it is replaced, in a folder that is the user's own
        assert put and not told and cache.get(KEY) == {"other": b"1"}
    else:
        assert not put and str(path) in told[0] and cache.path(KEY).read_bytes() == before


def test_a_secret_that_others_may_read_is_none(cache):
    cache.put(KEY, PARTS)
    (cache.root / "secret").chmod(0o644)
    got, told = told_of(cache, lambda: cache.get(KEY))
    assert got is None and "secret" in told[0] and "chmod go-rwx" in told[0]
    assert not told_of(cache, lambda: cache.put(KEY, PARTS))[0]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")
@pytest.mark.parametrize("which", ["root", "ab", "entry", "secret"])
def test_what_another_owns_is_not_used(cache, which):
    cache.put(KEY, PARTS)
    path = {"root": cache.root, "ab": cache.path(KEY).parent, "entry": cache.path(KEY), "secret": cache.root / "secret"}[which]
    os.chown(path, 65534, -1)
    got, told = told_of(cache, lambda: cache.get(KEY))
    assert got is None and "user 65534 owns it" in told[0] and str(path) in told[0]


def _as_a_fifo(path):
    os.mkfifo(path, 0o600)


def _as_a_link(path):
    content = path.with_name("elsewhere")
    content.write_bytes(b"x" * 32)
    content.chmod(0o600)
    path.symlink_to(content)


@pytest.mark.parametrize("make", [_as_a_fifo, _as_a_link, lambda path: path.symlink_to("/dev/zero"), lambda path: path.mkdir(mode=0o700)])
@pytest.mark.parametrize("which", ["entry", "secret"])
def test_what_is_no_file_is_neither_read_nor_waited_for(cache, which, make):
    cache.put(KEY, PARTS)
    path = cache.path(KEY) if which == "entry" else cache.root / "secret"
    path.unlink()
    make(path)
    got, told = told_of(cache, lambda: cache.get(KEY))
    assert got is None and str(path) in told[0]


def test_a_folder_that_is_a_link_is_not_followed(cache, tmp_path):
    cache.put(KEY, PARTS)
    (cache.root / "binaries").rename(tmp_path / "elsewhere")
    (cache.root / "binaries").symlink_to(tmp_path / "elsewhere")
    assert cache.get(KEY) is None and not cache.put(KEY, PARTS)


@pytest.mark.parametrize("table", [b"[]", b"7", b'{"code": -1}', b'{"code": "x"}', b'{"code": 1e999}', b'{"code": true}', b'{"code": 99}', b'{"code": 2}', b"[" * 100_000, b"\xff", b""])
def test_a_table_of_contents_that_is_none(cache, table):
    """Under the right checksum, even: as if the secret were known."""
    cache.put(KEY, PARTS)
    body = table + b"\nabc"
    secret = (cache.root / "secret").read_bytes()
    cache.path(KEY).write_bytes(b"gemmgen cache 3 " + hmac.digest(secret, KEY.encode() + b"\n" + body, "sha256").hex().encode() + b"\n" + body)
    got, told = told_of(cache, lambda: cache.get(KEY))
    assert got is None and "made anew" in told[0]


def test_many_makers_of_the_secret_agree(tmp_path):
    """Each thread begins with an empty folder, and all must read what any has put."""
    for attempt in range(10):
        caches = [Cache(tmp_path / str(attempt)) for _ in range(8)]
        with ThreadPoolExecutor(8) as pool:
            assert all(pool.map(lambda numbered: numbered[1].put(f"{numbered[0]:02x}" + KEY[2:], PARTS), enumerate(caches)))
        assert all(caches[0].get(f"{number:02x}" + KEY[2:]) == PARTS for number in range(8))
        assert {path.name for path in (tmp_path / str(attempt)).iterdir()} == {"secret", "binaries"}


@pytest.mark.slow
def test_a_build_says_what_it_replaced(gemmgen, write_spec, monkeypatch, tmp_path):
    monkeypatch.setenv("GEMMGEN_CACHE", str(tmp_path / "cache"))
    spec = write_spec('[split]\nscheme = "half"\n[tile]\nblock = [32, 32, 16]\nwarp = [32, 16, 16]\n')
    assert gemmgen("build", spec, "-o", tmp_path / "out").code == 0
    assert "from the cache" in (ran := gemmgen("build", spec, "-o", tmp_path / "out")).out and not ran.err
    [entry] = [path for path in (tmp_path / "cache" / "binaries").rglob("*") if path.is_file()]
    whole = entry.read_bytes()
    secret = (tmp_path / "cache" / "secret").read_bytes()
    body = b'{"code": 3, "assembly": 1, "log": 0, "seconds": 1}\nabcx1'
    crafted = b"gemmgen cache 3 " + hmac.digest(secret, entry.name.encode() + b"\n" + body, "sha256").hex().encode() + b"\n" + body
    for content in (whole[:-1], b"", crafted):
        entry.write_bytes(content)
        ran = gemmgen("build", spec, "-o", tmp_path / "out")
        assert ran.code == 0 and "from the cache" not in ran.out
        assert f"note: {entry} is damaged or not this user's" in ran.err and "made anew" in ran.err
        assert "from the cache" in gemmgen("build", spec, "-o", tmp_path / "out").out


def test_headers_are_not_unpacked_where_others_may_write(cache):
    assert cache.own_folder("headers") == cache.root / "headers"
    (cache.root / "headers").chmod(0o777)
    got, told = told_of(cache, lambda: cache.own_folder("headers"))
    assert got is None and "headers" in told[0]


@pytest.mark.parametrize(("arch", "assembly", "same", "wanted"), [
    ("sm_90", "x\n\t.loc 1", True, "lean"), ("sm_90", "x\n\t.loc 1", False, "whole"), ("sm_90", "x", True, "whole"), ("gfx90a", "x\n\t.loc 1", True, "whole")])
def test_machine_code_without_lines_is_taken_where_it_uses_the_same(monkeypatch, arch, assembly, same, wanted):
    """Resources that were checked are those of what is shipped."""
    whole = SimpleNamespace(assembly=assembly, kernels={"k": 255}, name="whole")
    lean = SimpleNamespace(kernels={"k": 255 if same else 254}, name="lean")
    monkeypatch.setattr("gemmgen.build.cuda.compile_cuda", lambda text, arch, **how: lean)
    assert without_line_info(SimpleNamespace(arch=arch, text="", file_name="x.cu"), whole).name == wanted


# ---- templates


def test_a_template_is_compiled_once_for_all_processes(tmp_path, monkeypatch):
    """Another text, name, Jinja or Python has code of its own, and so has what cannot be read again."""
    monkeypatch.setenv("GEMMGEN_CACHE", str(tmp_path / "cache"))
    compiled, compiles = [], jinja2.Environment._compile
    monkeypatch.setattr(jinja2.Environment, "_compile", lambda self, source, filename: compiled.append(filename) or compiles(self, source, filename))

    def rendered(text: str, name: str = "x.j2") -> tuple[str, int]:
        """As a process of its own does: (the text, how many templates were compiled)."""
        compiled.clear()
        environment = render._environment.__wrapped__()
        environment.loader = jinja2.DictLoader({name: text})
        return environment.get_template(name).render(), len(compiled)

    assert [rendered("${1 + 1}") for _ in range(2)] == [("2", 1), ("2", 0)]
    assert [rendered("${1 + 2}") for _ in range(2)] == [("3", 1), ("3", 0)]
    assert rendered("${1 + 1}") == ("2", 0), "another checkout's text is kept beside it"
    assert [rendered("${1 + 1}", "y.j2")[1] for _ in range(2)] == [1, 0]
    for changed in ((jinja2, "__version__", "0"), (render, "MAGIC_NUMBER", b"0")):
        with monkeypatch.context() as other:
            other.setattr(*changed)
            assert rendered("${1 + 1}") == ("2", 1)
    [entry] = [path for path in (tmp_path / "cache" / "templates").rglob("*") if path.is_file() and b"y.j2" in path.read_bytes()]
    entry.write_bytes(entry.read_bytes()[:-1])
    with pytest.warns(CacheWarning, match="made anew"):
        assert rendered("${1 + 1}", "y.j2") == ("2", 1)
    monkeypatch.setenv("GEMMGEN_CACHE", "off")
    assert [rendered("${1 + 1}") for _ in range(2)] == [("2", 1)] * 2


@pytest.mark.parametrize(("arch", "compiler"), [("sm_90", "cuda.compile_cuda"), ("gfx90a", "hip.compile_hip")])
def test_what_a_build_asks_of_a_compiler(cache, monkeypatch, arch, compiler):
    """A binary has lines of its source unless they are left out, and goes to the cache that is named, else to the compiler's own."""
    asked = []
    monkeypatch.setattr(f"gemmgen.build.{compiler}", lambda *given, **how: asked.append((given, how)))
    source = SimpleNamespace(arch=arch, text="text", file_name="x", allow_spills=True)
    usual = {"name": "x", "allow_spills": True, "only_kept": False, "line_info": True}
    build(source), build(source, cache=cache, only_kept=True, line_info=False)
    assert asked == [(("text", arch), usual), (("text", arch), usual | {"only_kept": True, "line_info": False, "cache": cache})]
