"""What of the bench of batches needs no GPU: its cells, their matrices, compiled loops, statistics, tables and plots, its answers to bad input."""

from __future__ import annotations

import ctypes
import json
import re
import sys
import weakref
from math import prod
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import numpy_cupy
import pytest
from one_by_one import OneByOne

from gemmgen import timing
from gemmgen.batch import PROBLEM
from gemmgen.cli.inputs import batch_sizes
from gemmgen.errors import DeviceError, InfeasibleSpec, SpecError, UnknownName
from gemmgen.kinds import all_kinds
from gemmgen.timing import batch_contender, racing
from gemmgen.timing.batches import NAMES, ONE_SIZE, PADDED, SUITES, DeviceBatch, Product, cells, native, padded_extents, prepared, rivals, suited
from gemmgen.timing.batches import cells as every_cell
from gemmgen.timing.batches import device as batches_device
from gemmgen.timing.batches.contender import _in_turn, checked
from gemmgen.timing.batches.device import places
from gemmgen.timing.batches.rivals import _Handle
from gemmgen.workshop.bench import BatchRow, Table, as_csv, as_text, from_csv, geometric_means, worst_cells
from gemmgen.workshop.bench import measure as benching
from gemmgen.workshop.bench.racers import batch_racers, of_batches

ROOT = Path(__file__).resolve().parents[2]


def test_a_problem_is_64_bytes_at_these_places():
    assert PROBLEM.itemsize == 64
    assert [PROBLEM.fields[name][1] for name in PROBLEM.names] == [0, 8, 16, 24, 28, 32, 36, 40, 44, 48, 52, 56]
    assert PROBLEM.names == ("a", "b", "c", "lda", "ldb", "ldc", "m", "n", "k", "alpha", "beta", "reserved")


# ---- cells


def test_the_papers_cells_are_all_there_in_range_and_the_same_each_time():
    found = cells(["paper"])
    assert found == cells(["paper"]) and len(found) == 72
    assert {(*cell.bounds, cell.batch) for cell in found} == {
        (mn, k, batch) for mn in (128, 256, 512) for k in (128, 256, 512, 1024) for batch in (8, 16, 32, 64, 128, 256)
    }
    for cell in found:
        m, n, k = np.array(cell.products).T
        assert cell.seed == (*cell.bounds, cell.batch)
        assert 16 <= min(m.min(), n.min(), k.min()) and max(m.max(), n.max()) <= cell.bounds[0] and k.max() <= cell.bounds[1]
    large = [cell for cell in found if cell.batch == 256]
    assert all(np.array(cell.products)[:, 0].max() > 0.95 * cell.bounds[0] for cell in large)  # up to the bound, not around a mean
    for at, bounds in ((0, (128, 256, 512)), (1, (128, 256, 512, 1024))):  # each bound is an extent that is drawn, as the least is
        for bound in bounds:
            drawn = [extent for cell in found if cell.bounds[at] == bound for product in cell.products for extent in (product[2:] if at else product[:2])]
            assert (min(drawn), max(drawn)) == (16, bound)
    # What the seed gives is part of the record: other numbers are other cells.
    assert found[0].products[:3] == ((58, 44, 46), (52, 38, 112), (52, 39, 63))


def test_inception_is_table_6():
    found = cells(["inception"])
    assert [cell.batch for cell in found] == [4, 3, 4, 3, 3, 4, 3, 5, 5]
    assert found[0].products == ((784, 96, 192), (784, 64, 192), (784, 32, 192), (784, 16, 192))
    assert found[8].products[2] == Product(49, 384, 192) and {k for cell in found for _, _, k in cell.products} == {192}


def test_experts_share_all_tokens_and_some_get_none():
    experts = [cell for cell in cells(["transformers"]) if "experts" in cell.label]
    assert {cell.batch for cell in experts} == {64}
    assert [sum(m for m, _, _ in cell.products) for cell in experts] == [4096, 4096, 4096, 4096, 128]
    idle = {cell.label: sum(m == 0 for m, _, _ in cell.products) for cell in experts}
    assert all(idle[label] > 0 for label in idle if "zipf" in label) and idle["experts even 4096, 2048x1408"] == 0
    assert {extent for cell in experts for _, *rest in cell.products for extent in rest} <= set(range(1024, 4097))


def test_lora_goes_down_to_its_rank_and_up_again():
    made = cells(["transformers"])
    lora = {cell.label: cell.products for cell in made if "lora" in cell.label}
    assert len(lora) == 10 and [cell.seed for cell in made[-10:]] == [(32, 512, number // 2) for number in range(10)]
    assert len({tuple(m for m, _, _ in products) for products in lora.values()}) == 5, "each cell draws tokens of its own"
    for label, down in lora.items():
        if "down" in label:
            up = lora[label.replace("down", "up")]
            assert [(m, k, n) for m, n, k in down] == list(up)  # the same tokens and ranks; d and r change places
            assert all(8 <= rank <= 64 and 1 <= m <= 512 for m, rank, _ in down)
    assert {rank for _, rank, _ in lora["lora down, mixed ranks"]} == {8, 16, 32, 64}


def test_uniform_is_wmmaes_and_cells_are_chosen_by_their_batch():
    found = cells(["uniform"])
    assert [cell.products[0].k for cell in found] == [16, 32, 64, 128, 256, 512, 1024]
    assert all(set(cell.products) == {(1024, 1024, cell.products[0].k)} and cell.batch == 256 for cell in found)
    assert len(cells(["paper"], [8, 256])) == 24 and len(cells(["inception", "paper"], [4])) == 3
    assert len({cell.name for cell in every_cell()}) == len(every_cell()) and set(SUITES) == {cell.suite for cell in every_cell()}


def test_work_and_bytes_of_a_cell():
    [cell] = cells(["inception"])[:1]
    assert cell.flops == 2 * 784 * 192 * 208 and cell.moved_bytes == 4 * (4 * 784 * 192 + 192 * 208 + 784 * 208)


# ---- matrices on a device


class _Refused(Exception):
    pass


@pytest.fixture
def gpu(monkeypatch):
    """cupy in NumPy: enough of it for a batch, the comparison with FP64 and the race."""
    def device(array):
        return np.asarray(array).view(numpy_cupy.Array)

    runtime = SimpleNamespace(
        memGetInfo=lambda: (1 << 28, 1 << 30), getDeviceProperties=lambda number: {"l2CacheSize": 1 << 16, "name": b"A GPU"}, CUDARuntimeError=_Refused,
    )
    nothing = SimpleNamespace(ptr=0, record=lambda stream: None, synchronize=lambda: None, __enter__=None)

    class Stream:
        ptr = 1
        __enter__ = __exit__ = lambda self, *details: None

        def __init__(self, non_blocking=True):
            pass

    cupy = SimpleNamespace(
        empty=lambda shape, dtype: device(np.full(shape, 7, dtype)), zeros=lambda shape, dtype: device(np.zeros(shape, dtype)), asarray=device,
        isnan=np.isnan, isinf=np.isinf, isfinite=np.isfinite, maximum=np.maximum, matmul=np.matmul, random=SimpleNamespace(default_rng=np.random.default_rng),
        get_default_memory_pool=lambda: SimpleNamespace(free_bytes=lambda: 0, free_all_blocks=lambda: None),
        cuda=SimpleNamespace(
            Device=lambda: SimpleNamespace(id=0, synchronize=lambda: None), Event=lambda: nothing, Stream=Stream, get_elapsed_time=lambda start, stop: 1.0,
            runtime=runtime, driver=SimpleNamespace(CUDADriverError=_Refused), memory=SimpleNamespace(OutOfMemoryError=MemoryError),
        ),
    )
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    return cupy


SIZES = (Product(3, 5, 7), Product(0, 4, 2), Product(16, 1, 64), Product(2, 2, 0))


def test_matrices_begin_at_multiples_of_256_bytes():
    assert [list(x) if isinstance(x, np.ndarray) else x for x in places([21, 0, 64, 65])] == [[0, 64, 64, 128], 256]
    assert places([]) [1] == 0


def test_a_batch_tells_of_itself(gpu, monkeypatch):
    batch = DeviceBatch(SIZES, sets=2)
    assert batch.m.tolist() == [3, 0, 16, 2] and batch.m.dtype == np.int32
    for at in range(2):
        host = batch.hosts[at]
        assert np.asarray(batch.problems[at]).tobytes() == host.tobytes() and host.dtype == PROBLEM
        assert host["lda"].tolist() == [7, 2, 64, 0] and host["ldb"].tolist() == host["ldc"].tolist() == [5, 4, 1, 2]
        assert set(host["alpha"]) == {1.0} and set(host["beta"]) == {0.0} and not host["reserved"].any()
        for number, (m, n, k) in enumerate(SIZES):
            matrices = batch.matrices(at, number)
            assert [x.shape for x in matrices] == [(m, k), (k, n), (m, n)]
            for name, matrix, pointers in zip("abc", matrices, batch.pointers[at]):
                assert not matrix.size or matrix.data.ptr == host[name][number] == pointers[number]
                assert not matrix.size or host[name][number] % 4 == 0
    assert not np.array_equal(batch.a[0], batch.a[1]) and abs(np.asarray(batch.a[0])).max() <= 1
    assert batch.gaps == 3 * 64 - (15 + 16 + 4) and not batch.is_uniform and DeviceBatch([SIZES[0]] * 3, sets=1).is_uniform
    monkeypatch.setattr(batches_device, "SLAB_BYTES", 8 * 70)  # drawn in parts, of which the last is shorter
    for drawn in DeviceBatch(SIZES, sets=1, low=2.0, high=3.0).a + DeviceBatch(SIZES, sets=1, low=2.0, high=3.0).b:
        assert drawn.size > 150 and 2 <= drawn.min() and drawn.max() <= 3 and len(np.unique(drawn)) > 0.9 * drawn.size
    assert DeviceBatch([], sets=1).problems[0].size == 0 and DeviceBatch(SIZES).sets == 8


def test_padded_matrices_have_the_largest_extents_and_zeros_around(gpu):
    assert padded_extents(SIZES) == (16, 5, 64) and padded_extents([]) == (0, 0, 0)
    batch = DeviceBatch(SIZES, sets=2)
    padded = batch.padded
    assert padded.extents == (16, 5, 64) and padded.a[1].shape == (4, 16, 64) and padded.b[1].shape == (4, 64, 5) and padded.c[1].shape == (4, 16, 5)
    for number, (m, n, k) in enumerate(SIZES):
        a, b, c = batch.matrices(1, number)
        assert np.array_equal(padded.a[1][number, :m, :k], a)
        assert np.allclose((padded.a[1][number] @ padded.b[1][number])[:m, :n], a @ b, atol=1e-5)
        assert np.count_nonzero(padded.a[1][number]) == a.size
        assert padded.pointers[1][0][number] == padded.a[1][number].data.ptr and padded.pointers[1][2][number] == padded.c[1][number].data.ptr
    gpu.cuda.runtime.memGetInfo = lambda: (1 << 12, 1 << 30)
    with pytest.raises(DeviceError, match="padded to its largest product is too large"):
        DeviceBatch(SIZES, sets=2).padded


# ---- what kernels race against


class OfTheHost:
    """cuBLAS's functions for batches, in NumPy on the host's memory: each gives 7 where a leading dimension is too small."""

    value = 1

    def function(self, name):
        return getattr(self, name)

    @staticmethod
    def product(m, n, k, a, lda, b, ldb, c, ldc):
        if lda < max(1, m) or ldb < max(1, k) or ldc < max(1, m):
            return 7
        matrix(c, m, n, ldc)[...] = matrix(a, m, k, lda) @ matrix(b, k, n, ldb)
        return 0

    def cublasSgemm_v2(self, handle, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc):  # noqa: N802
        assert (handle, ta, tb, alpha._obj.value, beta._obj.value) == (1, 0, 0, 1.0, 0.0)
        return self.product(m, n, k, a.value, lda, b.value, ldb, c.value, ldc)

    def cublasSgemmStridedBatched(self, handle, ta, tb, m, n, k, alpha, a, lda, sa, b, ldb, sb, beta, c, ldc, sc, count):  # noqa: N802
        return max((self.cublasSgemm_v2(handle, ta, tb, m, n, k, alpha, *(
            part for x, ld, stride in ((a, lda, sa), (b, ldb, sb)) for part in (ctypes.c_void_p(x.value + 4 * at * stride.value), ld)
        ), beta, ctypes.c_void_p(c.value + 4 * at * sc.value), ldc) for at in range(count)), default=0)

    def cublasSgemmBatched(self, handle, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc, count):  # noqa: N802
        listed = [np.ctypeslib.as_array(ctypes.cast(x, ctypes.POINTER(ctypes.c_uint64)), (count,)) for x in (a, b, c)]
        return max((self.cublasSgemm_v2(handle, ta, tb, m, n, k, alpha, ctypes.c_void_p(int(x)), lda, ctypes.c_void_p(int(y)), ldb, beta,
                                        ctypes.c_void_p(int(z)), ldc) for x, y, z in zip(*listed)), default=0)

    def cublasSgemmGroupedBatched(self, handle, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc, groups, sizes):  # noqa: N802
        def array(x, kind, count):
            return np.ctypeslib.as_array(ctypes.cast(x, ctypes.POINTER(kind)), (count,))

        whole = [array(x, ctypes.c_int, groups) for x in (sizes, ta, tb, m, n, k, lda, ldb, ldc)]
        assert not whole[1].any() and not whole[2].any()
        assert set(array(alpha, ctypes.c_float, groups)) == {1.0} and set(array(beta, ctypes.c_float, groups)) == {0.0}
        listed, at, worst = [array(x, ctypes.c_uint64, int(whole[0].sum())) for x in (a, b, c)], 0, 0
        for size, _, _, *extents, la, lb, lc in zip(*(x.tolist() for x in whole)):
            for _ in range(size):
                x, y, z = (int(one[at]) for one in listed)
                worst, at = max(worst, self.product(*extents, x, la, y, lb, z, lc)), at + 1
        return worst


RACED = {
    "many sizes": (Product(3, 5, 7), Product(0, 4, 2), Product(16, 1, 64), Product(16, 1, 64), Product(4, 0, 3), Product(6, 2, 9)),
    "one size": (Product(3, 30, 10),) * 3, "one product": (Product(2, 3, 5),),
}


@pytest.mark.parametrize(("name", "which"), [
    (name, which) for which, products in RACED.items()
    for name in suited(["cublas-loop", "cublas-grouped", "cublas-batched-padded", "cublas-strided"], products)])
def test_what_kernels_race_against_multiplies_what_they_do(gpu, monkeypatch, name, which):
    products = RACED[which]
    monkeypatch.setattr(native, "library", lambda: None)
    rival = rivals()[name]
    rival.handle = OfTheHost
    batch = DeviceBatch(products, sets=2)
    rival.prepare(batch, 1)()
    for number, (m, n, _) in enumerate(products):
        a, b, c = batch.matrices(1, number)
        found = rival.result(batch, 1, number) if hasattr(rival, "result") else c
        assert found.shape == (m, n) and np.allclose(found, a @ b, atol=1e-5)
        assert np.all(batch.matrices(0, number)[2] == 7), "the other set's"
    inside = np.zeros(batch.c[1].size, bool)
    for start, (m, n, _) in zip(batch.places_c.tolist(), products):
        inside[start : start + m * n] = True
    assert np.all(np.asarray(batch.c[1])[~inside] == 7), "between the matrices"


# ---- compiled loops


def matrix(address, rows, columns, ld):
    """A column-major matrix [rows, columns] in memory."""
    flat = np.ctypeslib.as_array(ctypes.cast(address, ctypes.POINTER(ctypes.c_float)), (ld * columns,))
    return flat.reshape(columns, ld).T[:rows]


def _sgemm(calls, refuses=0):
    """cublasSgemm in NumPy, column major, by addresses; answers 7 at its call `refuses`."""
    pointer, number = ctypes.c_void_p, ctypes.c_int

    def sgemm(handle, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc):
        calls.append(handle)
        if len(calls) == refuses:
            return 7
        one, zero = (ctypes.cast(at, ctypes.POINTER(ctypes.c_float))[0] for at in (alpha, beta))
        assert (ta, tb, one, zero) == (0, 0, 1.0, 0.0)
        matrix(c, m, n, ldc)[...] = matrix(a, m, k, lda) @ matrix(b, k, n, ldb)
        return 0

    return ctypes.CFUNCTYPE(
        number, pointer, number, number, number, number, number, pointer, pointer, number, pointer, number, pointer, pointer, number,
    )(sgemm)


@pytest.fixture
def loops():
    if native.library() is None:
        pytest.skip("no C compiler is here")
    return native.library()


def test_without_a_c_compiler_there_is_no_compiled_loop(monkeypatch):
    monkeypatch.setenv("PATH", "")
    assert native.library.__wrapped__() is None


def test_the_compiled_loop_multiplies_row_major_and_leaves_empty_products_out(gpu, loops):
    batch, calls = DeviceBatch(SIZES[:3], sets=1), []
    function = _sgemm(calls)
    assert loops.loop(ctypes.cast(function, ctypes.c_void_p), 11, batch.hosts[0].ctypes.data, 3) == 0
    for number in range(3):
        a, b, c = batch.matrices(0, number)
        assert c == pytest.approx(a @ b, rel=1e-5, abs=1e-6)
    assert calls == [11, 11]
    calls.clear()
    function = _sgemm(calls, refuses=1)
    assert loops.loop(ctypes.cast(function, ctypes.c_void_p), 11, batch.hosts[0].ctypes.data, 3) == 7 and len(calls) == 1


def test_the_spread_loop_waits_for_the_main_stream_and_it_for_all(gpu, loops):
    products = [Product(2, 3, 4)] * 5
    batch, calls, order = DeviceBatch(products, sets=1), [], []
    number, pointer = ctypes.c_int, ctypes.c_void_p
    record = ctypes.CFUNCTYPE(number, pointer, pointer)(lambda event, stream: order.append(("record", event, stream)) or 0)
    wait = ctypes.CFUNCTYPE(number, pointer, pointer, ctypes.c_uint)(lambda stream, event, flags: order.append(("wait", stream, event)) or 0)
    function = _sgemm(calls)
    three = [(ctypes.c_void_p * 3)(*values) for values in ((1, 2, 3), (21, 22, 23), (31, 32, 33))]
    addresses = [ctypes.cast(one, ctypes.c_void_p) for one in (function, record, wait)]
    assert loops.spread(*addresses, *three, 3, 20, 30, batch.hosts[0].ctypes.data, 5) == 0
    assert calls == [1, 2, 3, 1, 2]
    assert order[:4] == [("record", 30, 20), ("wait", 21, 30), ("wait", 22, 30), ("wait", 23, 30)]
    assert order[4:] == [("record", 31, 21), ("record", 32, 22), ("record", 33, 23), ("wait", 20, 31), ("wait", 20, 32), ("wait", 20, 33)]


# ---- who is right, and the race


class _Wrong:
    """A contender with a fault."""

    name = "wrong"

    def __init__(self, fault):
        self.fault = fault

    def prepare(self, batch, set_index):
        right = OneByOne().prepare(batch, set_index)

        def enqueue():
            right()
            self.fault(batch, set_index)

        return enqueue


def _beside(batch, at):
    batch.c[at][15] = 0.0  # between the first matrix and the next


def _unwritten(batch, at):
    batch.matrices(at, 2)[2][3, 0] = np.nan


def _imprecise(batch, at):
    batch.matrices(at, 2)[2][...] *= 1.001


def _in_the_last_set(batch, at):
    if at == batch.sets - 1:
        batch.matrices(at, 0)[2][0, 0] += 1


@pytest.mark.parametrize("fault", [_beside, _unwritten, _imprecise, _in_the_last_set])
def test_who_is_wrong_is_not_timed(gpu, fault):
    told = []
    found = prepared({"fine": OneByOne(), "bad": _Wrong(fault)}, DeviceBatch(SIZES, sets=3), told.append)
    assert [entry.name for entry in found] == ["fine"] and found[0].scaled < 1e-6
    assert len(told) == 1 and told[0].startswith("bad: not timed: it is wrong")


def test_a_contender_may_say_how_right_it_means_to_be_and_where_its_result_is(gpu):
    rough, elsewhere = _Wrong(_imprecise), _Wrong(_unwritten)
    rough.tolerance = 1e-2
    kept = {}

    def result(batch, at, number):
        m, n, _ = batch.products[number]
        return kept.setdefault((at, number), np.asarray(batch.matrices(at, number)[0]) @ np.asarray(batch.matrices(at, number)[1]))

    elsewhere.result = result
    assert len(prepared({"rough": rough, "elsewhere": elsewhere}, DeviceBatch(SIZES, sets=1))) == 2 and kept


def test_who_has_no_way_is_told(gpu):
    class Absent:
        name = "absent"

        def prepare(self, batch, set_index):
            raise DeviceError("bench", "no way", got="this")

    told = []
    assert prepared({"absent": Absent()}, DeviceBatch(SIZES, sets=1), told.append) == [] and told == ["absent: not timed: no way: this"]


def test_the_largest_the_smallest_and_some_between_are_compared():
    batch = SimpleNamespace(products=[Product(4, 4, 4)] * 20 + [Product(1, 1, 1), Product(0, 9, 9), Product(9, 9, 9), *[Product(4, 4, 4)] * 20])
    found = checked(batch)
    assert {20, 22, 0, 42} <= set(found) and 21 not in found and len(found) <= 8
    assert checked(SimpleNamespace(products=[Product(0, 1, 1)])) == []


def test_a_contender_keeps_who_multiplies_for_its_calls_know_addresses_alone():
    class Known:
        def prepare(self, batch, at):
            return lambda: ran.append(at)

    ran, one = [], Known()
    held, enqueue = weakref.ref(one), _in_turn(one, SimpleNamespace(sets=2))
    del one
    assert held() is not None
    enqueue(3)
    assert ran == [1]


@pytest.mark.parametrize("captured", [False, True])
def test_the_race_rotates_sets_and_interleaves(gpu, monkeypatch, captured):
    ran = []

    class Known:
        def __init__(self, name, takes):
            self.name, self.takes = name, takes

        def prepare(self, batch, at):
            right = OneByOne().prepare(batch, at)
            return lambda: (ran.append((self.name, at, self.takes)), right())

    def elapsed(self, action, *rest):
        before = len(ran)
        action()
        return sum(takes for _, _, takes in ran[before:])

    monkeypatch.setattr(racing.Stopwatch, "seconds", elapsed)
    entries = prepared({"slow": Known("slow", 1e-3), "fast": Known("fast", 1e-4)}, DeviceBatch(SIZES, sets=2))
    ran.clear()
    monkeypatch.setattr(racing, "time", SimpleNamespace(perf_counter=lambda: 1e-5 * len(ran)))
    monkeypatch.setattr(racing.Stopwatch, "graph", lambda self, enqueue, count: SimpleNamespace(launch=lambda stream: [enqueue(at) for at in range(count)]))
    timing.race(entries, rounds=6, slice_ms=2.0, watch=racing.Stopwatch(), captured=captured)
    assert [len(entry.seconds) for entry in entries] == [6, 6]
    assert all(entry.host_seconds == pytest.approx([1e-5] * 6) for entry in entries)
    assert entries[0].seconds == pytest.approx([1e-3] * 6) and entries[1].seconds == pytest.approx([1e-4] * 6)
    turns = [name for at, (name, _, _) in enumerate(ran) if at == 0 or ran[at - 1][0] != name]
    assert len(turns) >= 8 and all({at for name, at, _ in ran if name == which} == {0, 1} for which in ("slow", "fast"))


def test_the_stand_in_of_a_kernel_for_batches_refuses_kernels_of_one_product():
    with pytest.raises(InfeasibleSpec, match="one product"):
        batch_contender.contender(SimpleNamespace(plan=SimpleNamespace(launches=SimpleNamespace(of_products=False)), source=SimpleNamespace(name="gemmgen_x")))


def test_a_handle_of_cublas_has_a_stream_and_a_workspace_of_its_own(gpu, monkeypatch):
    given = []

    def called(name):
        return lambda handle, *arguments: given.append((name, *(one.value for one in arguments))) or 0

    library = SimpleNamespace(cublasCreate_v2=lambda handle: 0, cublasSetStream_v2=called("stream"), cublasSetWorkspace_v2=called("workspace"))
    monkeypatch.setattr(sys.modules[_Handle.__module__], "load_library", lambda: library)
    monkeypatch.setitem(sys.modules, "cupy.cuda", SimpleNamespace(device=SimpleNamespace(get_cublas_handle=lambda: given.append("loaded"))))
    monkeypatch.setattr(gpu, "empty", lambda count, kind: SimpleNamespace(data=SimpleNamespace(ptr=count * kind().itemsize + 1)))
    _Handle(5)
    assert given == ["loaded", ("stream", 5), ("workspace", (32 << 20) + 1, 32 << 20)]
    library.cublasSetWorkspace_v2 = lambda *arguments: 7
    with pytest.raises(DeviceError, match="gives no handle") as refused:
        _Handle(5)
    assert refused.value.got == "cublasStatus 7"


def test_a_kernel_for_batches_races_by_its_plans_threshold_and_copies_no_list(monkeypatch):
    monkeypatch.setattr(batch_contender, "BatchKernel", lambda *given: given)
    built = SimpleNamespace(plan=SimpleNamespace(launches=SimpleNamespace(of_products=True)))
    assert batch_contender.contender(built) == (built, None, False) and batch_contender.contender(built, 7, True) == (built, 7, True)


def test_forms_are_those_for_the_batchs_sizes():
    assert set(NAMES) - set(suited(NAMES, SIZES)) == set(ONE_SIZE)
    assert set(NAMES) - set(suited(NAMES, [SIZES[0]] * 3)) == set(PADDED)
    assert not any("graph" in name for name in suited(NAMES, SIZES, captured=True))  # they would be the loops that are captured


def test_page_and_help_know_every_rival_and_suite(gemmgen):
    page, told = (ROOT / "docs" / "bench.md").read_text().partition("## Batches")[2], gemmgen("bench", "--help").out
    told = re.sub(r"-\n\s+", "-", told)  # its lines break at hyphens
    for name in NAMES:
        assert re.search(rf"{name}[,| ]", page) and re.search(rf"{name}\b", told), name
    assert all(f"| {suite} |" in page and suite in told for suite in SUITES)


# ---- statistics


def row(label, batch, name, rounds, kind="rival", suite="paper", bounds=(128, 256)) -> BatchRow:
    return BatchRow(suite, label, batch, (128, 256, batch), *bounds, 10**9, 10**6, name, kind, tuple(rounds), 1e-6, 1e-7)


def two_cells() -> list[BatchRow]:
    slowing = np.array([1.0, 2.0, 4.0]) * 1e-4  # a chip that slows down slows all; the ratios do not move
    return [
        row("128x256", 8, "cublas-loop", 8 * slowing), row("128x256", 8, "cublas-grouped", 4 * slowing), row("128x256", 8, "torch-bmm-padded", 0.5 * slowing),
        row("128x256", 8, "ours", slowing, "kernel"),
        row("128x256", 16, "cublas-loop", 2 * slowing), row("128x256", 16, "cublas-grouped", 0.9 * slowing), row("128x256", 16, "ours", slowing, "kernel"),
    ]


def test_geometric_means_over_the_cells():
    found = {(mean.kernel, mean.rival): (mean.ratio, mean.cells) for mean in geometric_means(two_cells())}
    assert found["ours", "cublas-loop"] == (pytest.approx(4.0), 2)
    assert found["ours", "cublas-grouped"] == (pytest.approx((4 * 0.9) ** 0.5), 2)
    assert found["ours", "torch-bmm-padded"] == (pytest.approx(0.5), 1)


def test_the_worst_cell_with_padded_rivals_and_without():
    found = {worst.padding: worst for worst in worst_cells(two_cells())}
    assert (found[True].batch, found[True].rival, found[True].ratio) == (8, "torch-bmm-padded", pytest.approx(0.5))
    assert (found[False].batch, found[False].rival, found[False].ratio) == (16, "cublas-grouped", pytest.approx(0.9))


def test_suites_are_told_apart():
    rows = [*two_cells(), row("module 1", 4, "cublas-loop", [3.0], suite="inception"), row("module 1", 4, "ours", [1.0], "kernel", "inception")]
    assert {(mean.suite, mean.rival): mean.cells for mean in geometric_means(rows)}["inception", "cublas-loop"] == 1
    assert {worst.suite for worst in worst_cells(rows)} == {"paper", "inception"}


def test_gflops_are_equation_11():
    one = row("128x256", 8, "ours", [1e-3, 2e-3, 9e-3], "kernel")
    assert (one.seconds, one.gflops) == (2e-3, pytest.approx(1e9 / 2e-3 / 1e9))


# ---- tables and files


def table_of(rows, notes=()) -> Table:
    return Table("A GPU", {"driver": "1.2"}, -1, 1, tuple(rows), tuple(notes))


def test_the_table_tells_ratios_first_then_times_and_means():
    text = as_text(table_of(two_cells(), ["torch: absent"]))
    lines = text.splitlines()
    assert "A GPU" in lines[0] and "driver 1.2" in lines[0] and lines[-1] == "note: torch: absent"
    head = next(at for at, line in enumerate(lines) if "x best" in line)
    assert lines[head + 1].split()[:6] == ["paper", "128x256", "8", "0.50", "0.50-0.50", "torch-bmm-padded"]
    assert lines[head + 1].split()[6:10] == ["5000", "200.0", "150.0-300.0", "1.0"]  # GFLOPS, microseconds, quartiles, the host's
    assert lines[head + 2].split()[:6] == ["paper", "128x256", "16", "0.90", "0.90-0.90", "grouped"]
    assert text.index("x best") < text.index("microseconds") < text.index("geometric means") < text.index("worst cells")
    at = lines.index("microseconds")
    assert lines[at + 1].split() == ["cell", "batch", "cublas-loop", "cublas-grouped", "torch-bmm-padded", "ours"]
    assert lines[at + 2].split()[-4:] == ["1600.0", "800.0", "100.0", "200.0"] and lines[at + 3].split()[-3:] == ["400.0", "180.0", "200.0"]
    ended = [line.split() for line in lines]
    assert ["4.00", "2", "paper", "ours", "cublas-loop"] in ended and ["0.90", "paper", "128x256", "16", "ours", "cublas-grouped", "left", "out"] in ended
    assert ["0.50", "paper", "128x256", "8", "ours", "torch-bmm-padded", "counted"] in ended


def test_rivals_alone_are_a_table_too():
    text = as_text(table_of([one for one in two_cells() if one.kind == "rival"]))
    assert "microseconds" in text and "x best" not in text and "geometric" not in text
    assert as_text(table_of([]))


def test_a_csv_comes_back_as_it_was():
    rows = (*two_cells(), row("module 1", 4, "x, \"y\"", [0.1 + 0.2], suite="inception", bounds=(None, None)))
    assert from_csv(as_csv(table_of(rows))) == ("A GPU", rows)
    told = as_csv(table_of(rows)).splitlines()
    of = dict(zip(told[0].split(","), told[1].split(",")))
    assert [float(of[name]) for name in ("seconds", "seconds_q1", "seconds_q3", "gflops")] == pytest.approx([16e-4, 12e-4, 24e-4, 625])


def test_the_record_has_medians_means_and_the_worst():
    told = json.loads(json.dumps(table_of(two_cells()).as_dict()))
    assert told["rows"][0]["seconds"] == pytest.approx(16e-4) and len(told["geometric_means"]) == 3 and len(told["worst"]) == 2


@pytest.mark.parametrize("change, told", [
    (lambda lines: ["a,b", "1,2"], "is not a table of gemmgen bench"), (lambda lines: lines[:1], "no rows"),
    (lambda lines: [lines[0], lines[1].replace("128x256", "x").replace(",8,", ",many,", 1)], "line 2"),
    (lambda lines: [lines[0], lines[1].rsplit(",", 1)[0] + ",1.0 nan"], "line 2"), (lambda lines: [lines[0], lines[1].rsplit(",", 1)[0] + ","], "line 2"),
    (lambda lines: [lines[0], lines[1].rsplit(",", 1)[0] + ",1.0 0.0"], "line 2"),
    (lambda lines: [*lines[:2], lines[2].rsplit(",", 1)[0] + ",1.0 2.0"], "different numbers of rounds"),
])
def test_a_damaged_csv_is_refused(change, told):
    lines = as_csv(table_of(two_cells())).splitlines()
    with pytest.raises(SpecError, match=told):
        from_csv("\n".join(change(lines)), "x.csv")


# ---- the bench and its command


def test_a_row_has_its_cells_bounds_and_the_median_of_the_hosts_times():
    cell = next(one for one in cells(["paper"]) if one.bounds and one.bounds[0] != one.bounds[1])
    entry = SimpleNamespace(name="x", seconds=[1.0, 2.0, 3.0], host_seconds=[1.0, 5.0, 7.0], scaled=1e-7)
    found = benching._batch_row(cell, entry, "rival")
    assert (found.max_mn, found.max_k) == cell.bounds and found.host_seconds == 5.0 and found.seconds == 2.0


def test_kernels_for_batches_run_once_for_each_threshold_and_way_to_get_the_list(monkeypatch):
    built = [SimpleNamespace(plan=name, source=SimpleNamespace(interface=SimpleNamespace(asks=lambda what: what == "list")), refused=[f"no {name}"])
             for name in ("first", "second")]
    monkeypatch.setattr("gemmgen.workshop.bench.racers._built", lambda loaded, progress: built[:len(loaded)])
    monkeypatch.setattr("gemmgen.workshop.bench.racers.road.load", lambda path, gpu: path)
    monkeypatch.setattr("gemmgen.workshop.bench.require_timed", lambda plan, where: None)
    monkeypatch.setattr(batch_contender, "contender", lambda one, threshold, upload_list=False: (one.plan, threshold, upload_list))
    monkeypatch.setattr(batch_contender, "MixedKernels", lambda one, other: (one.plan, other.plan))
    specs = [Path("a.toml"), Path("b.toml")]
    found, notes = batch_racers(specs, None, thresholds=(8, 16), upload_lists=True, mix=True)
    assert found == {"mixed": ("first", "second")} | {
        f"{name}-{threshold}{'-upload' * upload}": (plan, threshold, upload)
        for name, plan in (("a", "first"), ("b", "second")) for threshold in (8, 16) for upload in (False, True)
    }
    assert notes == ["a: passed over: no first", "b: passed over: no second"]
    assert batch_racers(specs[:1], None)[0] == {"a": ("first", None, False)}
    with pytest.raises(SpecError, match="divides batches between two kernels"):
        batch_racers(specs[:1], None, mix=True)


def test_a_launch_overlaps_only_one_of_the_same_batch(gpu, monkeypatch):
    """The first launch that has blocks follows what the stream held before, whose results it reads."""
    overlapping = []

    def prepared(symbol, blocks, threads, shared, args, overlaps, direct):
        overlapping.append((symbol, blocks, overlaps))
        return lambda: None

    launches = [SimpleNamespace(symbol=name, blocks=lambda extents, blocks=blocks: blocks, threads=32, shared_bytes=0, parameters=(), overlaps=overlaps)
                for name, blocks, overlaps in (("none", 0, True), ("first", 3, True), ("second", 2, True), ("third", 1, False))]
    interface = SimpleNamespace(asks=lambda what: False, constants={}, buffers=(), launches=launches)
    listed = SimpleNamespace(rows=np.zeros(0, np.int32), extents={"turns": 1})
    plan = SimpleNamespace(own=SimpleNamespace(threshold=1), batch=SimpleNamespace(tiles=()), kind=all_kinds()["grouped"], design=SimpleNamespace(
        listed=lambda plan, sizes, threshold: listed))
    monkeypatch.setattr("gemmgen.run.open_device", lambda *of: SimpleNamespace(prepared=prepared))
    built = SimpleNamespace(plan=plan, source=SimpleNamespace(name="k", interface=interface), binary=None)
    kernel = batch_contender.BatchKernel(built)
    assert kernel.as_built is built
    assert batch_contender.BatchKernel(built, threshold=8).as_built is batch_contender.BatchKernel(built, upload_list=True).as_built is None
    kernel.prepare(DeviceBatch(SIZES, sets=1), 0)
    assert overlapping == [("first", 3, False), ("second", 2, True), ("third", 1, False)]


class _Pinned(bytearray):
    """Page-locked memory."""

    ptr = 6


def test_two_kernels_share_a_batch_as_it_is_divided(gpu, monkeypatch):
    """The second gets the products that the division says, the first all others; who gets none is not asked."""
    given = []

    class Kernel:
        def __init__(self, built):
            self.name = built.plan

        def prepare(self, batch, set_index, entries):
            return lambda: given.append((self.name, set_index, entries.tolist()))

    monkeypatch.setattr(batch_contender, "BatchKernel", Kernel)
    monkeypatch.setattr("gemmgen.run.mixed.check_pair", lambda *plans: None)
    both = batch_contender.MixedKernels(*(SimpleNamespace(plan=name) for name in ("first", "second")))
    batch = DeviceBatch(SIZES, sets=2)
    for least, told in ((10, [("first", 1, [0, 1, 3]), ("second", 1, [2])]), (0, [("second", 1, [0, 1, 2, 3])]), (99, [("first", 1, [0, 1, 2, 3])])):
        given.clear()
        monkeypatch.setattr("gemmgen.run.mixed.division", lambda first, second, sizes, least=least: sizes[:, 0] >= least)
        both.prepare(batch, 1)()
        assert given == told


def test_a_list_is_copied_whole_before_the_launches(gpu):
    copied = []
    gpu.cuda.get_current_stream = lambda: SimpleNamespace(ptr=7)
    gpu.cuda.runtime.memcpyHostToDevice, gpu.cuda.runtime.memcpyAsync = 1, lambda *of: copied.append(of)
    rows = np.arange(12, dtype=np.int32).reshape(3, 4)
    pinned = []
    gpu.cuda.alloc_pinned_memory = lambda count: pinned.append(_Pinned(count)) or pinned[-1]
    batch_contender._upload(rows, SimpleNamespace(data=SimpleNamespace(ptr=5)))()
    assert copied == [(5, 6, 48, 1, 7)] and bytes(pinned[0]) == rows.tobytes()


@pytest.fixture
def benched(gpu, monkeypatch):
    """A bench on cupy in NumPy, where every slice takes a millisecond."""
    for name, value in {"WARM_UP_SECONDS": 0, "require_gpu": lambda where: None, "rivals": lambda: {"cublas-loop": OneByOne(), "cublas-grouped": _Wrong(_imprecise)}}.items():
        monkeypatch.setattr(benching, name, value)
    for name in ("versions", "conditions"):
        monkeypatch.setattr(timing, name, dict)
    monkeypatch.setattr(racing.Stopwatch, "seconds", lambda self, action, *rest: (action(), 1e-3)[1])


def test_a_bench_of_batches(benched, monkeypatch):
    """Contenders by name, a rival that is wrong and a cell that does not fit told, notes carried along, every cell saved."""
    def batch(products):
        if len(products) == 5:
            raise MemoryError("out of memory")
        return DeviceBatch(products, sets=2)

    monkeypatch.setattr(benching, "DeviceBatch", batch)
    so_far, modules = [], cells(["inception"])
    small = [type(cell)(cell.suite, cell.label, tuple(Product(m // 8, n // 8, k // 8) for m, n, k in cell.products)) for cell in (*modules[2:4], modules[8])]
    table = benching.bench_batches(
        {"ours": OneByOne()}, small, against=("cublas-loop", "cublas-grouped"), rounds=2, slice_ms=0.1, notes=["one"], measured=so_far.append,
    )
    assert [(one.label, one.name, one.kind, len(one.rounds)) for one in table.rows] == [
        (label, name, kind, 2) for label in ("module 3", "module 4") for name, kind in (("cublas-loop", "rival"), ("ours", "kernel"))
    ]
    assert table.notes[0] == "one" and len(table.notes) == 4 and table.notes[1].startswith("inception module 3 x 4: cublas-grouped: not timed: it is wrong")
    assert table.notes[3] == "inception module 9 x 5: the GPU's memory is too small: out of memory"
    assert [len(one.rows) for one in so_far] == [2, 4, 4] and table.device == "A GPU"
    assert all(prod(one.rounds) > 0 and one.scaled < 1e-6 for one in table.rows)


def test_the_command_times_batches_where_a_spec_or_an_option_asks_for_them(benched, monkeypatch, gemmgen, write_spec, tmp_path):
    raced, race = [], timing.race
    monkeypatch.setattr(timing, "race", lambda entries, **how: raced.append(how) or race(entries, **how))
    monkeypatch.setattr("gemmgen.workshop.bench.racers.batch_racers", lambda specs, *more: ({path.stem: OneByOne() for path in specs}, ["a note"]))
    batch, single = write_spec('[problem]\nkind = "grouped"\n', name="batch.toml"), write_spec()
    ran = gemmgen("bench", batch, "--suite", "inception", "--batches", "5", "--against", "cublas-loop", "--rounds", 2, "--out", tmp_path / "out", "--quiet")
    assert ran.code == 0 and "note: a note" in ran.out and (tmp_path / "out" / "batches.txt").read_text() == ran.out
    device, rows = from_csv((tmp_path / "out" / "batches.csv").read_text())
    assert [(row.label, row.name, row.kind) for row in rows][:2] == [("module 8", "cublas-loop", "rival"), ("module 8", "batch", "kernel")] and len(rows) == 4
    assert (raced[0]["rounds"], raced[0]["slice_ms"], raced[0]["captured"], raced[0]["watch"] is not None) == (2, 3.0, False, True)
    assert len(json.loads((tmp_path / "out" / "batches.json").read_text())["worst"]) == 2
    assert of_batches([batch]) and not (of_batches([batch, single]) or of_batches([single]) or of_batches([]) or of_batches([tmp_path / "none.toml"]))


@pytest.mark.slow
def test_plots_are_drawn_from_a_csv(gemmgen, tmp_path):
    path = tmp_path / "batches.csv"
    rows = [*two_cells(), row("512x128", 8, "cublas-loop", [1e-3], bounds=(512, 128)), row("512x128", 8, "ours", [1e-3], "kernel", bounds=(512, 128))]
    rows += [row("module 1", 4, "cublas-loop", [3.0], suite="inception", bounds=(None, None))]
    path.write_text(as_csv(table_of(rows)))
    ran = gemmgen("bench", "--plot", path, "--out", tmp_path / "new")
    assert ran.code == 0
    names = {"ratio-paper.png", "latency-paper.png", "gflops-paper.png", "latency-inception.png", "gflops-inception.png"}
    assert {file.name for file in (tmp_path / "new").iterdir()} == names and all(file.stat().st_size > 5000 for file in (tmp_path / "new").iterdir())


@pytest.mark.parametrize("arguments, told", [
    (["--suite", "papers"], "'paper'"), (["--suite", "paper", "--against", "cublas-lop"], "'cublas-loop'"), (["--batches", "8,x"], "--batches"),
    (["--batches", "7"], "has nothing to time"), (["--batches", "8", "--against", ""], "has nothing to time"),
    (["--plot", "no-such.csv"], "no-such.csv"), (["no-such.toml"], "no-such.toml"), (["--suite", "paper", "--frontier"], "--frontier: is for single products"),
    (["--batches", "8", "--sizes", "64"], "--sizes: is for single products"), (["--suite", "paper", "--no-main-kernel"], "--no-main-kernel: is for single"),
    (["x.toml", "--captured"], "--captured: is for batches"), (["x.toml", "--thresholds", "8"], "--thresholds: is for batches"),
])
def test_bad_requests_are_refused(gemmgen, arguments, told):
    ran = gemmgen("bench", *arguments)
    assert ran.code == 2 and told in ran.err and "Traceback" not in ran.err


def test_lists_of_names_and_numbers():
    assert batch_sizes("8, 16 256") == [8, 16, 256] and batch_sizes("") == []
    assert benching.suites("paper,uniform,paper") == ("paper", "uniform") and benching.batch_rivals("all") == NAMES and benching.batch_rivals(" ") == ()
    with pytest.raises(UnknownName):
        benching.suites("papers")


def test_torchs_product_runs_on_the_batchs_stream_and_leaves_torchs_as_it_was(monkeypatch):
    """A stream that stayed current would be used after its owner has destroyed it, by whatever program goes on."""
    cupy, current, seen = numpy_cupy.install(monkeypatch), ["torch's"], []
    cupy.cuda.get_current_stream = lambda: SimpleNamespace(ptr=7)

    class Inside:
        def __init__(self, stream):
            self.stream = stream

        def __enter__(self):
            current.append(self.stream)

        def __exit__(self, *error):
            current.pop()

    def bmm(a, b, out):  # as torch.bmm
        seen.append(current[-1])
        out[...] = a @ b

    torch = SimpleNamespace(
        backends=SimpleNamespace(cuda=SimpleNamespace(matmul=SimpleNamespace(allow_tf32=True))), as_tensor=lambda x, device: x, bmm=bmm,
        cuda=SimpleNamespace(stream=Inside, ExternalStream=lambda at: f"stream {at}", set_stream=current.append),
    )
    monkeypatch.setitem(sys.modules, "torch", torch)
    draw = np.random.default_rng(3)
    a, b, c = draw.random((2, 5, 3, 4)), draw.random((2, 5, 4, 6)), np.zeros((2, 5, 3, 6))
    call = rivals()["torch-bmm-padded"].prepare(SimpleNamespace(padded=SimpleNamespace(a=a, b=b, c=c)), 1)
    assert current == ["torch's"] and not seen and torch.backends.cuda.matmul.allow_tf32 is False
    call()
    assert current == ["torch's"] and seen == ["stream 7"] and np.array_equal(c[1], a[1] @ b[1]) and not c[0].any()
