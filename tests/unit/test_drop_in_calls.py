"""What the preload library makes of each call: every argument of every function, passed on and described; what a decision is remembered for; what a kernel is
given to run. A library between it and the library of kernels (tests/support/stand_in/watching.c) tells."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

import dropped_in
from dropped_in import run_python
from gemmgen.library import shim

pytestmark = pytest.mark.slow


def watching(kind: str = "cublas") -> str:
    """What is preloaded: the preload library, and the one that watches it."""
    folder = dropped_in.folder(kind)
    library = folder / "libwatching.so"
    if not library.exists():
        dropped_in.compile_c(dropped_in.SOURCES / "watching.c", library, "-shared", "-fPIC", f"-I{folder}", "-ldl")
    return f"{shim.build(folder).preload}:{library}"


# ---- Arguments ----

EACH = """
def number(at, of):
    '''A value that no other argument has; of 64 bits where the type has them.'''
    return {"i": 10 + at, "I": 100 + at, "J": (1 << 33) + 100 + at, "S": (1 << 34) + 1000 * at, "p": 0x7000_0000_0000 + 64 * at}[of]

def each(library_of, handle_of, types=False):
    '''(name, its form, arguments): all different, but for what says that FP32 is multiplied.'''
    for name in GEMMS:
        form = FORMS[name.removesuffix("_64")].replace(" ", "")
        if name.endswith("_64"):
            form = form.replace("I", "J")
        yield name, form, library_of(name), handle_of(name)

def called(library, name, given):
    vendor_of = library_of(name)
    vendor_of.stand_in_note(1)
    status = typed(library, name)(*given)
    vendor_of.stand_in_note(0)
    return status, noted(vendor_of, len(given)) == [x.value if isinstance(x, P) else x for x in given]
"""

OFF = EACH + """
for name, form, library, handle in each(library_of, handle_of):
    given = [handle.value, *(number(at, of) for at, of in enumerate(form) if at)]
    tell(**{name: called(default, name, given)})
"""

ON = EACH + """
watched = watch()
watched.watched_answer(-22, 0)  # which is not remembered
for name, form, library, handle in each(library_of, handle_of):
    alpha, beta = (array(x, 0.0, real=ctypes.c_double if is_wide(name) else FLOAT) for x in (3.0, 4.0))
    numbers = {OPERATIONS[N]: 0, OPERATIONS[T]: 1, OPERATIONS[2]: 2 if is_complex(name) else 1}
    for ta, tb in ((OPERATIONS[N], OPERATIONS[T]), (OPERATIONS[2], OPERATIONS[N])):
        given = [handle.value, ta, tb, *(number(at, of) for at, of in enumerate(form) if at > 2)]
        enumerations = [at for at, of in enumerate(form) if of == "i" and at > 2]
        for at in enumerations:
            given[at] = C64 if is_complex(name) else F32
        if name.startswith("cublasGemm"):
            given[-2:] = COMPUTE_32F, -1
        scalars = [at for at, of in enumerate(form) if of == "p" and at][0::3]  # alpha, a, b, beta, c
        given[scalars[0]], given[scalars[1]] = ctypes.addressof(alpha), ctypes.addressof(beta)
        places = [at for at, of in enumerate(form) if of == "p" and at]
        strides = [at for at, of in enumerate(form) if of == "S"]
        extents = [at for at, of in enumerate(form) if of in "IJ"]
        m, n, k, lda, ldb, ldc, *batch = (given[at] for at in extents)
        listed = "atched" in name and not strides
        want = {
            "order": 1, "transpose_a": numbers[ta], "transpose_b": numbers[tb], "epilogue": 0, "m": m, "n": n, "k": k,
            "lda": lda, "ldb": ldb, "ldc": ldc, "batch": batch[0] if batch else 1, "bias": 0, "flags": 4 * listed, "kernel": 0, "element": element_of(name),
            "largest_error": 4e-6 * (2.0**-28 if is_wide(name) else 1),
            "sized": True, **dict(zip(("alpha", "a", "b", "beta", "c"), (given[at] for at in places))),
            **dict(zip(("stride_a", "stride_b", "stride_c"), (given[at] for at in strides) if strides else (0, 0, 0)))}
        before = watched.watched_selects()
        status, same = called(default, name, given)
        got = watched.watched_problem().contents.told()
        tell(**{f"{name} {ta}{tb}": [status, same, watched.watched_selects() - before, {key: [got[key], want[key]] for key in want if got[key] != want[key]}]})
"""

OF_CUBLAS = """
blas, default = load(), ctypes.CDLL(None)
handle = create(default, stream=0x100)
library_of, handle_of = (lambda name: blas), (lambda name: handle)
"""

OF_HIP = """
as_hip()
hip, roc, default = load("libhipblas.so.3"), load("librocblas.so.5"), ctypes.CDLL(None)
handles = P(), P()
default.hipblasCreate(ctypes.byref(handles[0])), default.rocblas_create_handle(ctypes.byref(handles[1]))
library_of, handle_of = (lambda name: hip if name[0] == "h" else roc), (lambda name: handles[name[0] != "h"])
"""


@pytest.mark.parametrize("kind, vendor, count", [("cublas", OF_CUBLAS, 44), ("hipblas", OF_HIP, 48)])
def test_every_argument_is_passed_on_and_described(kind, vendor, count):
    """All different and of 64 bits where their types are; the vendor's status is the caller's."""
    off = run_python(vendor + OFF, kind, LAB_OFF="1")
    assert off.told == {name: [77, True] for name in off.told} and len(off.told) == count
    on = run_python(vendor + ON, kind, LD_PRELOAD=watching(kind))
    assert on.told == {name: [77, True, 1, {}] for name in on.told} and len(on.told) == 2 * count
    assert set(on.counts.values()) == {2} and {line["detail"] for line in on.log} == {"no driver"}
    for line in on.log:
        wide = line["routine"].endswith("_64")
        assert (line["m"], line["n"], line["k"]) == tuple(at + 100 + (wide << 33) for at in (3, 4, 5)), line["routine"]
        assert (line["batch"] > 1) == ("atched" in line["routine"]) and line["layout"] in ("nt", "cn" if line.get("element") in ("c64", "c128") else "tn") and line["order"] == "column"


MATMUL = """
blas, lt, default = load(), load("libcublasLt.so.13"), ctypes.CDLL(None)
matmul = default.cublasLtMatmul
matmul.argtypes = [P] * 14 + [ctypes.c_size_t, P]
watched = watch()

def description(attributes, compute=68):
    made = P()
    lt.cublasLtMatmulDescCreate(ctypes.byref(made), compute, 0)
    for number, value in attributes.items():
        value = {8: P, 25: ctypes.c_int8, **dict.fromkeys((10, 11, 17, 36), I64)}.get(number, I32)(value)
        assert not lt.cublasLtMatmulDescSetAttribute(made, number, ctypes.byref(value), ctypes.c_size_t(ctypes.sizeof(value)))
    return made

def layout(rows, columns, ld, order=0, batch=1, stride=0, kind=0, more={}):
    made = P()
    lt.cublasLtMatrixLayoutCreate(ctypes.byref(made), kind, ctypes.c_uint64(rows), ctypes.c_uint64(columns), I64(ld))
    for number, value in {1: I32(order), 5: I32(batch), 6: I64(stride), **more}.items():
        assert not lt.cublasLtMatrixLayoutSetAttribute(made, number, ctypes.byref(value), ctypes.c_size_t(ctypes.sizeof(value)))
    return made

SIZES
alpha, beta = array(3.0), array(0.0)
A, B, C, D, BIAS = (0x5000_0000_0000 + 64 * i for i in range(5))

def one(told, ta=0, tb=0, orders=(0, 0, 0, 0), batch=1, attributes={}, beta=beta, c_is_d=True, compute=68, sizes={}, own_c={}, kinds=(0, 0, 0, 0), handle=0x77,
        more=({}, {}, {}, {})):
    attributes = {3: ta, 4: tb, **attributes}
    size = {"a": (K, M) if ta else (M, K), "b": (N_, K) if tb else (K, N_), "c": (M, N_), "d": (M, N_), **sizes}
    batches = batch if isinstance(batch, tuple) else (batch,) * 4
    la, lb, ld = (layout(*size[of], LDS[i], orders[(0, 1, 3)[i]], batches[(0, 1, 3)[i]], STRIDES[i], kinds[(0, 1, 3)[i]], more[(0, 1, 3)[i]]) for i,
                  of in enumerate("abd"))
    lc = layout(*size["c"], **{"ld": LDS[2], "order": orders[2], "batch": batches[2], "stride": STRIDES[2], "kind": kinds[2], "more": more[2], **own_c})
    given = [handle, description(attributes, compute).value, ctypes.addressof(alpha), A, la.value, B, lb.value, ctypes.addressof(beta), D if c_is_d else C,
             lc.value, D, ld.value, 0x9991, 0x9992, 12345, 0x100]
    before = watched.watched_selects()
    lt.stand_in_note(1)
    status = matmul(*given)
    lt.stand_in_note(0)
    same = noted(lt, 16) == given
    asked = watched.watched_selects() - before
    tell(**{told: [status, same, asked, watched.watched_problem().contents.told() if asked else None]})
"""

LARGE = """M, N_, K = ((1 << 32) + i for i in (3, 4, 5))
LDS, STRIDES = [(1 << 33) + i for i in (6, 7, 8)], [(1 << 34) + i for i in (1, 2, 3)]"""
SMALL = "M, N_, K, LDS, STRIDES = 3, 3, 6, [7, 8, 9], [100, 101, 102]"

MATMULS = MATMUL.replace("SIZES", LARGE, 1) + """
watched.watched_answer(-22, 0)
for ta in (0, 1, 2):
    for tb in (0, 1):
        for orders in ((0, 0, 0, 0), (1, 0, 0, 0), (0, 1, 1, 1), (1, 1, 0, 0)):
            one(f"{ta} {tb} {orders}", ta, tb, orders)
one("batch", batch=9)
for epilogue in (1, 2, 4, 6, 32, 36):
    one(f"epilogue {epilogue}", attributes={7: epilogue, 8: BIAS})
one("device", attributes={2: 1})
one("bias of FP32", attributes={7: 4, 8: BIAS, 26: 0})
one("bias of a batch, shared", attributes={7: 4, 8: BIAS, 10: 0}, batch=9)
one("bias of one, apart", attributes={7: 4, 8: BIAS, 10: 4})
"""


def test_every_argument_of_matmul_is_passed_on_and_described():
    """Sizes, leading dimensions and strides of 64 bits, all different, of every order and epilogue."""
    ran = run_python(MATMULS, LD_PRELOAD=watching())
    big = 1 << 32
    plain = {
        "epilogue": 0, "m": big + 3, "n": big + 4, "k": big + 5, "lda": 2 * big + 6, "ldb": 2 * big + 7, "ldc": 2 * big + 8, "batch": 1, "bias": 0,
        "stride_a": 4 * big + 1, "stride_b": 4 * big + 2, "stride_c": 4 * big + 3, "kernel": 0, "largest_error": 4e-6, "sized": True, "flags": 0,
        **{of: 0x5000_0000_0000 + 64 * at for of, at in (("a", 0), ("b", 1), ("c", 3))}}
    epilogues = {1: (0, 0), 2: (1, 0), 4: (0, 1), 6: (1, 1), 32: (3, 0), 36: (3, 1)}
    bias = 0x5000_0000_0000 + 64 * 4
    for name, (status, same, asked, got) in ran.told.items():
        assert (status, same, asked) == (77, True, 1), name
        want = dict(plain)
        ta, tb, order = 0, 0, 1
        if name[0] in "012":
            ta, tb, orders = int(name[0] != "0"), int(name[2]), eval(name[4:])
            order, ta, tb = 1 - orders[3], int(bool(ta) != (orders[0] != orders[3])), int(bool(tb) != (orders[1] != orders[3]))
        elif name.startswith("epilogue"):
            want["epilogue"], has_bias = epilogues[int(name.split()[1])]
            want["bias"] = bias * has_bias
        elif name.startswith("bias"):
            want["bias"] = bias
        elif name == "device":
            want["flags"] = 1
        want["batch"] = 9 if "batch" in name else 1
        want |= {"order": order, "transpose_a": ta, "transpose_b": tb}
        assert {key: got[key] for key in want} == want, name
    assert all(line["detail"] == "no driver" for line in ran.log)


REFUSED = MATMUL.replace("SIZES", LARGE, 1) + """
watched.watched_answer(-22, 0)
one("TYPES a", kinds=(2, 0, 0, 0))
one("TYPES b", kinds=(0, 2, 0, 0))
one("TYPES c", kinds=(0, 0, 2, 0))
one("TYPES d", kinds=(0, 0, 0, 2))
one("COMPUTE", compute=77)
one("OPERATION a", ta=3)
one("OPERATION b", tb=3)
for name, sizes in (("m", {"a": (M + 1, K)}), ("n", {"b": (K, N_ + 1)}), ("k", {"b": (K + 1, N_)}), ("c rows", {"c": (M + 1, N_)}),
                    ("c columns", {"c": (M, N_ + 1)})):
    one(f"SIZES {name}", sizes=sizes)
for name, sizes in (("m", {"a": (K, M + 1)}), ("n", {"b": (N_ + 1, K)}), ("k", {"b": (N_, K + 1)})):
    one(f"SIZES t {name}", ta=1, tb=1, sizes=sizes)
for at in range(3):
    one(f"SIZES batch {at}", batch=tuple(2 if i == at else 3 for i in range(4)))
for at in range(4):
    one(f"LAYOUT {at}", orders=tuple(2 if i == at else 0 for i in range(4)))
one("POINTER_MODE", attributes={2: 2})
one("POINTER_MODE 3", attributes={2: 3})
one("EPILOGUE aux", attributes={7: 130})
one("EPILOGUE relu and gelu", attributes={7: 34})
one("BIAS missing", attributes={7: 4})
one("BIAS rows", orders=(1, 1, 1, 1), attributes={7: 4, 8: BIAS})
one("BIAS half", attributes={7: 4, 8: BIAS, 26: 2})
one("BIAS apart", attributes={7: 4, 8: BIAS, 10: 4}, batch=9)
for name, own in (("ld", {"ld": LDS[2] + 1}), ("stride", {"stride": 5}), ("order", {"order": 1})):
    one(f"OTHER_C {name}", own_c=own, beta=array(0.5))
one("OTHER_C place", c_is_d=False, beta=array(0.5))
one("OTHER_C device", c_is_d=False, attributes={2: 1})
one("HANDLE", handle=0)
for number in (5, 6, 11, 15, 17, 25, 36, 45):
    one(f"ATTRIBUTE {number}", attributes={number: 1})
one("ATTRIBUTE 17, beyond a byte", attributes={17: 1 << 40})
for at in range(4):
    one(f"LAYOUT_ATTRIBUTE {at}", more=tuple({7: I64(64)} if i == at else {} for i in range(4)), own_c={"ld": LDS[2] + 1} if at == 2 else {})
one("LAYOUT_ATTRIBUTE 8", more=({8: I32(1)}, {}, {}, {}))
one("EMPTY", batch=0)
one("read not at all", own_c={"ld": LDS[2] + 1, "stride": 5, "order": 1}, c_is_d=False)
"""


def test_every_condition_of_matmul():
    """Each argument's own type, size, order and batch is looked at; the reason is in the log, and the vendor has what the caller gave."""
    ran = run_python(REFUSED, LD_PRELOAD=watching())
    assert ran.told.pop("read not at all")[:3] == [77, True, 1]
    for name, (status, same, asked, _) in ran.told.items():
        assert (status, same, asked) == (77, True, 0), name
    counts: dict[str, int] = {}
    for name in ran.told:
        words = shim.REASONS[name.split()[0]]
        counts[f"cublasLtMatmul: {words}"] = counts.get(f"cublasLtMatmul: {words}", 0) + 1
    assert ran.counts == counts | {f"cublasLtMatmul: {shim.REASONS['REFUSED']}": 1}
    details = {(line["reason"], line.get("detail")) for line in ran.log}
    words = shim.REASONS
    assert {detail for reason, detail in details if reason == words["ATTRIBUTE"]} == {5, 6, 11, 15, 17, 25, 36, 45}
    assert {detail for reason, detail in details if reason == words["POINTER_MODE"]} == {2, 3}
    assert {detail for reason, detail in details if reason == words["EPILOGUE"]} == {130, 34}
    assert {detail for reason, detail in details if reason == words["LAYOUT_ATTRIBUTE"]} == {7, 8}
    assert (words["COMPUTE"], 77) in details and (words["LAYOUT"], 2) in details


# ---- Decisions ----

DECISIONS = OF_CUBLAS + """
watched, gpu = watch(), driver()
other = create(default, stream=0x100)
default.cublasSetPointerMode_v2(other, 1)

def asked(name, change=None, of=handle, **how):
    given, c, kept = arguments(name, of, **how)
    if change:
        change(given)
    before = watched.watched_selects(), watched.watched_gemms()
    typed(default, name)(*given)
    return watched.watched_selects() - before[0], watched.watched_gemms() - before[1]

def at(place, value):
    return lambda given: given.__setitem__(place, value)

S, G, B = "cublasSgemm_v2", "cublasSgemmStridedBatched", "cublasSgemmBatched"
C = "cublasCgemm_v2"
variants = {
    "plain": (S,), "m": (S, None, {"m": 4}), "n": (S, None, {"n": 5}), "k": (S, None, {"k": 6}), "a": (S, None, {"ta": T}), "b": (S, None, {"tb": T}),
    "lda": (S, at(8, 7)), "ldb": (S, at(10, 7)), "ldc": (S, at(13, 5)), "device": (S, None, {"of": other}),
    "batch": (G,), "more": (G, None, {"batch": 1}), "stride a": (G, at(9, 0)), "stride b": (G, at(12, 0)), "stride c": (G, at(16, 60)),
    "listed": (B,), "wide": ("cublasDgemm_v2",), "pairs": (C,), "conjugates": (C, None, {"ta": 2}), "transposed pairs": (C, None, {"ta": T}),
}
for turns in (("first", "second"), ("later",)):
    for name, (function, *rest) in variants.items():
        change, how = (rest + [None, {}][len(rest):])
        for turn in turns:
            tell(**{f"{turn} {name}": asked(function, change, **how)})
gpu.stand_in_context(0xc9)
tell(**{"first context": asked(S), "second context": asked(S)})
watched.watched_answer(-23, 0)
tell(**{"none": asked(S, m=3), "none again": asked(S, m=3)})
watched.watched_answer(-22, 0)
tell(**{"no driver": asked(S, m=2), "no driver again": asked(S, m=2)})
watched.watched_answer(-21, 0)
tell(**{"refused": asked(S, m=1), "refused again": asked(S, m=1)})
"""


def test_a_decision_is_remembered_for_calls_that_are_alike_in_all_it_depends_on():
    ran = run_python(DECISIONS, LD_PRELOAD=watching(), LAB_LARGEST_ERROR="0")  # which types do not share
    for name, found in ran.told.items():
        if name.startswith("first"):
            assert found == [1, 1], name
        elif name.startswith("second"):
            assert found == [0, 1], name
    later = [found for name, found in ran.told.items() if name.startswith("later")]
    assert later.count([0, 1]) == len(later)
    # Without a driver or a device now, there may be one later.
    assert ran.told["none"] == ran.told["none again"] == ran.told["no driver"] == ran.told["no driver again"] == [1, 0]
    assert ran.told["refused"] == [1, 0] and ran.told["refused again"] == [0, 0]


COLLIDING = DECISIONS.split("variants =")[0] + """
import struct, threading
asked(S)
p = watched.watched_problem().contents
gpu.stand_in_context(0xc9)

def hash_of(lda):
    # `key` and `hash_of` of the preload library, of a call that this leading dimension alone tells from the one above
    words = struct.pack("10qQd13iI", p.m, p.n, p.k, lda, p.ldb, p.ldc, p.batch, p.stride_a, p.stride_b, p.stride_c, 0xc9, p.largest_error, p.order, p.transpose_a,
                        p.transpose_b, p.epilogue, p.kernel, 0, p.kind, p.uplo, p.side, p.diag, 0, p.element, 1, p.flags)
    found, limit = 0x9e3779b97f4a7c15, 2**64 - 1
    for (word,) in struct.iter_unpack("Q", words):
        found = (found ^ word) * 0xff51afd7ed558ccd & limit
        found ^= found >> 32
    return found

sets = {}
for lda in range(7, 4000):
    sets.setdefault(hash_of(lda) % 128, []).append(lda)
mine, others = list(sets.values())[:2]

def once(lda):
    return asked(S, at(8, lda))[0]

def rounds(told):
    tell(**{f"{told}, {round}": [once(lda) for lda in mine[:4]] for round in (1, 2)}, **{f"{told}, beside": [once(lda) for lda in others[:4]]})
    tell(**{f"{told}, fifth": [once(lda) for lda in (mine[4], *mine[1:5])]})
    tell(**{f"{told}, first again": [once(lda) for lda in (mine[0], *mine[2:5], mine[1], mine[0])]})
    tell(**{f"{told}, beside again": [once(lda) for lda in others[:4]]})

rounds("one thread")
other = threading.Thread(target=rounds, args=("another",))
other.start(), other.join()
tell(**{"one thread, at last": [once(lda) for lda in (*mine[3:5], mine[0], mine[1])]})
watched.watched_answer(-22, 0)
tell(**{"no driver": [once(lda) for lda in (mine[5], mine[5], *mine[3:5])]})
watched.watched_answer(0, 0)
tell(**{"driver": [once(lda) for lda in (mine[5], mine[5])]})
"""


def test_decisions_of_one_place_in_the_table_are_kept_beside_each_other():
    """Four are; a fifth takes the place of the oldest. Each thread has its own table."""
    ran = run_python(COLLIDING, LD_PRELOAD=watching())
    for thread in ("one thread", "another"):
        assert ran.told[f"{thread}, 1"] == [1] * 4 and ran.told[f"{thread}, 2"] == [0] * 4
        assert ran.told[f"{thread}, beside"] == [1] * 4 and ran.told[f"{thread}, beside again"] == [0] * 4
        assert ran.told[f"{thread}, fifth"] == [1, 0, 0, 0, 0]
        assert ran.told[f"{thread}, first again"] == [1, 0, 0, 0, 1, 0]
    assert ran.told["one thread, at last"] == [0] * 4, "another thread took a place"
    # What is not kept takes one place, and leaves it to the next.
    assert ran.told["no driver"] == [1, 1, 1, 0] and ran.told["driver"] == [1, 0]


LT_DECISIONS = MATMUL.replace("SIZES", SMALL, 1) + """
watched.watched_answer(-20, 0)
for turn in ("first", "second"):
    one(f"{turn} plain")
    one(f"{turn} order", orders=(1, 1, 1, 1))
    one(f"{turn} relu", attributes={7: 2})
    one(f"{turn} gelu", attributes={7: 32})
    one(f"{turn} bias", attributes={7: 4, 8: BIAS})
    one(f"{turn} device", attributes={2: 1})
"""


def test_orders_epilogues_and_biases_have_decisions_of_their_own():
    ran = run_python(LT_DECISIONS, LD_PRELOAD=watching())
    assert {name: asked for name, (_, _, asked, _) in ran.told.items()} == {name: int(name.startswith("first")) for name in ran.told}


# ---- What a kernel is given ----

RUNS = OF_CUBLAS + """
watched, gpu = watch(), driver()

def one(told, of=handle, **how):
    given, c, kept = arguments("cublasSgemm_v2", of, **how)
    before = watched.watched_gemms()
    status = typed(default, "cublasSgemm_v2")(*given)
    ran = watched.watched_run().contents
    tell(**{told: [status, watched.watched_gemms() - before, ran.kernel, ran.flags, ran.largest_error, watched.watched_bytes(), watched.watched_stream() or 0,
                   watched.watched_mode(), gpu.stand_in_mode()]})
    return watched.watched_memory()

first = one("first")
tell(**{"the same": one("again") == first, "aligned": first % 256})
one("another stream", create(default, stream=0x230))
gpu.stand_in_capture(0x100, 1, 7, 0xf0)
tell(**{"apart": one("captured") != first})
gpu.stand_in_capture(0, 0, 0, 0)
watched.watched_answer(0, 1)
one("failed")
watched.watched_answer(0, -17)
one("refused")
"""


def test_what_a_kernel_is_given(tmp_path):
    """Its number, the workspace, the handle's stream; code may be loaded while a stream is captured. A driver's error is the caller's: nothing is passed on."""
    ran = run_python(RUNS, LD_PRELOAD=watching())
    told = ran.told
    whole = 2 << 20
    for name, stream, mode in (("first", 0x100, 0), ("again", 0x100, 0), ("another stream", 0x230, 0)):
        assert told[name] == [0, 1, 1, 2, 0.0, whole, stream, mode, 0], name
    assert told["captured"] == [0, 1, 1, 2, 0.0, 1024, 0x100, 2, 0]
    assert told["the same"] and told["aligned"] == 0 and told["apart"]
    assert told["failed"][:2] == [13, 1] and told["refused"][:2] == [0, 1]
    assert ran.counts == {"cublasSgemm_v2: taken": 5, f"cublasSgemm_v2: {shim.REASONS['REFUSED']}": 1}
    assert sorted((line["count"], str(line.get("detail"))) for line in ran.log) == [(1, "1"), (1, "workspace too small or not aligned"), (4, "None")]
    checked = run_python(RUNS, LD_PRELOAD=watching(), LAB_CHECK="1")
    assert checked.told["first"][3] == 0
    assert sorted((line["count"], line.get("checked", 0)) for line in checked.log) == [(1, 0), (1, 0), (4, 3)]  # not while a stream is captured
    counted = next(line for line in checked.log if "checked" in line)
    assert [counted[name] for name in ("a_lossy", "a_overflow", "a_nonfinite", "b_lossy", "b_overflow", "b_nonfinite", "repaired")] == [
        3 * 10**at for at in range(7)]
    (levels := tmp_path / "levels").write_text("all kernel reference_fallback\n")
    second = run_python(RUNS.partition("tell(**{\"the same")[0], LD_PRELOAD=watching(), LAB_LEVELS=str(levels)).told["first"]
    assert second == [0, 1, 2, 2, 0.0, 0, 0x100, 0, 0]


def test_a_drivers_error_is_the_vendors_own_status():
    ran = run_python(OF_HIP + """
driver("libamdhip64.so.7")
watched = watch()
watched.watched_answer(0, 1)
for name, handle in (("hipblasSgemm", handles[0]), ("rocblas_sgemm", handles[1])):
    given, c, kept = arguments(name, handle)
    tell(**{name: typed(default, name)(*given)})
""", "hipblas", LD_PRELOAD=watching("hipblas"))
    assert ran.told == {"hipblasSgemm": 5, "rocblas_sgemm": 6}


LT_RUNS = MATMUL.replace("SIZES", SMALL, 1) + """
watched.watched_answer(0, -17)  # refused when it is to run: the host's memory stays as it is
memory = ctypes.create_string_buffer(8192)
place = (ctypes.addressof(memory) + 255) // 256 * 256
for name, at, size in (("own", place, 4096), ("exact", place, 1024), ("small", place, 1023), ("aside", place + 8, 4096), ("none", None, 4096)):
    la, lb, ld = layout(M, K, 7), layout(K, N_, 8), layout(M, N_, 9)
    k = description({})
    before = watched.watched_gemms()
    matmul(0x77, k, ctypes.addressof(alpha), ctypes.addressof(memory), la, ctypes.addressof(memory), lb, ctypes.addressof(beta),
           ctypes.addressof(memory) + 4096,
           ld, ctypes.addressof(memory) + 4096, ld, None, at, size, 0x340)
    tell(**{name: [watched.watched_gemms() - before, watched.watched_memory() == place, watched.watched_bytes(), watched.watched_stream()]})
watched.watched_answer(0, 7)
tell(failed=matmul(0x77, k, ctypes.addressof(alpha), A, la, B, lb, ctypes.addressof(beta), D, ld, D, ld, None, None, 0, 0x340))
"""


def test_matmul_uses_the_callers_workspace_where_it_is_large_enough(tmp_path):
    ran = run_python(LT_RUNS, LD_PRELOAD=watching())
    whole = 2 << 20
    assert ran.told == {"own": [1, True, 4096, 0x340], "exact": [1, True, 1024, 0x340], "small": [1, False, whole, 0x340], "aside": [1, False, whole, 0x340],
                        "none": [1, False, whole, 0x340], "failed": 13}
    ran = run_python(LT_RUNS.split("watched.watched_answer")[0] + """
gpu, handle = driver(), P()
lt.cublasLtCreate(ctypes.byref(handle))
memory = array(*[1.0] * 100)
at, (la, lb, ld) = ctypes.addressof(memory), (layout(M, K, 7), layout(K, N_, 8), layout(M, N_, 9))
status = matmul(handle, description({}), ctypes.addressof(alpha), at, la, at, lb, ctypes.addressof(beta), at, ld, at, ld, None, None, 0, 0x340)
tell(status=status, gone=[gpu.counted("freed"), default.cublasLtDestroy(handle), gpu.counted("freed")])
""", LD_PRELOAD=watching())
    assert ran.told == {"status": 0, "gone": [0, 0, 1]}
    # A kernel that needs none is given none.
    (levels := tmp_path / "levels").write_text("all kernel reference_fallback\n")
    ran = run_python(LT_RUNS, LD_PRELOAD=watching(), LAB_LEVELS=str(levels))
    assert ran.told == {name: [1, False, 0, 0x340] for name in ("own", "exact", "small", "aside", "none")} | {"failed": 13}


ASKED = DECISIONS.split("S, G, B =")[0] + """
S = "cublasSgemm_v2"
tell(gemm=asked(S))
problem = watched.watched_problem().contents
tell(kernel=problem.kernel, error=problem.largest_error)
watched.watched_unpredicted(1)
tell(unpredicted=asked(S, m=3))
blas.stand_in_note(1)
tell(alpha=asked(S, at(6, None)), beta=asked(S, at(11, None)))
"""


def test_what_levels_and_settings_ask_the_library_for(tmp_path):
    """A kernel of any error, or any kernel within an error; a product without a prediction where all that is served is wanted."""
    levels = tmp_path / "levels"
    for text, kernel, error in (("", 0, 4e-6), ("all kernel reference\n", 1, 0), ("all error 1e-3\n", 0, 1e-3)):
        levels.write_text(text)
        for gain in ("0", "1"):
            ran = run_python(ASKED, LD_PRELOAD=watching(), LAB_LEVELS=str(levels), LAB_MIN_GAIN=gain)
            is_taken = gain == "0" or kernel > 0
            want = {"gemm": [1, 1], "kernel": kernel, "error": error, "unpredicted": [1, int(is_taken)], "alpha": [0, 0], "beta": [0, 0]}
            assert ran.told == want, (text, gain)
            words = shim.REASONS
            assert ran.counts == {"cublasSgemm_v2: taken": 1 + is_taken, f"cublasSgemm_v2: {words['NO_SCALARS']}": 2} | (
                {} if is_taken else {f"cublasSgemm_v2: {words['UNPREDICTED']}": 1})
            assert sorted((line["alpha"], line["beta"]) for line in ran.log if line.get("reason") == words["NO_SCALARS"]) == [
                ("missing", "other"), ("other", "missing")]


# ---- The vendor's functions, and the driver's ----

FOUND = """
default = ctypes.CDLL(None)
kept = [ctypes.CDLL(path) for path in OPENED]
call = ctypes.CDLL(CALLER).call_it if CALLER else lambda: typed(default, "cublasSgemm_v2")(*[None] + [0] * 5 + [None, None, 1, None, 1, None, None, 1])
call()
tell(**{name: vendor(ctypes.CDLL(name), "cublasSgemm_v2") for name in NAMES})
"""
CALLER = "int cublasSgemm_v2(void *, int, int, int, int, int, void *, void *, int, void *, int, void *, void *, int);\nint call_it(void);\n" \
    "int call_it(void) { return cublasSgemm_v2(0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1, 0, 0, 1); }\n"


def test_where_the_vendors_functions_are_found(tmp_path):
    """By the number of their version, the latest first; before that among libraries that are loaded; before that in what the caller is linked with."""
    folder = dropped_in.folder()
    vendor = folder / "vendor" / "libcublas.so.13"

    def found(names: list[str], opened: list[Path], caller: Path | None, place: Path) -> list[str]:
        script = FOUND.replace("OPENED", repr(list(map(str, opened)))).replace("CALLER", repr(str(caller or ""))).replace("NAMES", repr(names))
        ran = run_python(script, LD_LIBRARY_PATH=f"{place}:{folder}", LAB_OFF="1")
        return [name for name, count in ran.told.items() if count]

    there: list[str] = []
    for version in (11, 12, 13):
        there.append(f"libcublas.so.{version}")
        shutil.copy(vendor, tmp_path / there[-1])
        assert found(there, [], None, tmp_path) == there[-1:]
    for name in ("libcublasXt.so.9", "libcublas.so.8"):
        shutil.copy(vendor, tmp_path / name)
    xt, other = tmp_path / "libcublasXt.so.9", tmp_path / "libcublas.so.8"
    assert found([str(xt), str(other), *there], [xt, other], None, tmp_path) == [str(other)]
    own = tmp_path / "libcublas.so.9"
    dropped_in.compile_c(dropped_in.SOURCES / "cublas.c", own, "-shared", "-fPIC", f"-Wl,-soname,{own.name}", "-lm")
    (tmp_path / "caller.c").write_text(CALLER)
    linked = dropped_in.compile_c(tmp_path / "caller.c", tmp_path / "libcaller.so", "-shared", "-fPIC", f"-L{tmp_path}", "-l:libcublas.so.9")
    assert found([str(other), str(own)], [other, linked], linked, tmp_path) == [str(own)]
    to_us = dropped_in.compile_c(tmp_path / "caller.c", tmp_path / "libours.so", "-shared", "-fPIC", f"-L{folder}", "-Wl,--no-as-needed", "-l:liblab_cublas.so",
                                 f"-Wl,-rpath-link,{folder}")
    assert found(there, [], to_us, tmp_path) == there[-1:]


def test_a_driver_that_lacks_a_function(tmp_path):
    """All are needed but the one that numbers streams. Without that one, stream 2 is one for each thread, and others are told apart by where they are."""
    script = OF_CUBLAS + """
import threading
default.cublasSetStream_v2(handle, P(2))
watched = watch()
places = []
def one():
    given, c, kept = arguments("cublasSgemm_v2", handle)
    before = watched.watched_gemms()
    typed(default, "cublasSgemm_v2")(*given)
    places.append(watched.watched_memory() if watched.watched_gemms() > before else None)
threads = [threading.Thread(target=one) for _ in range(2)]
for thread in threads:
    thread.start()
barrier = [thread.join() for thread in threads]
one(), one()
default.cublasSetStream_v2(handle, P(0x100))
one(), one()
tell(taken=places[0] is not None, first=places[2] == places[3], second=places[4] == places[5], apart=len({places[2], places[4]}))
"""
    folder = dropped_in.folder()
    for lacks, taken in (("cuUserObjectCreate", False), ("cuStreamGetCtx", False), ("cuStreamGetId", True)):
        dropped_in.compile_c(dropped_in.SOURCES / "driver.c", tmp_path / "libcuda.so.1", "-shared", "-fPIC", f"-D{lacks}=other_name",
                             "-Wl,-soname,libcuda.so.1")
        ran = run_python(script, LD_PRELOAD=watching(), LD_LIBRARY_PATH=f"{tmp_path}:{folder / 'vendor'}:{folder}")
        assert ran.told == {"taken": taken, "first": True, "second": True, "apart": 2 if taken else 1}, lacks
        assert set(ran.counts) == {"cublasSgemm_v2: taken" if taken else f"cublasSgemm_v2: {shim.REASONS['NO_CONTEXT']}"}
        assert not taken or ran.summaries[0]["workspace_bytes"] in (6 << 20, 8 << 20)  # a thread that is gone may leave its place to the next


# ---- The log of many ----


def test_calls_of_many_kinds_from_many_places(tmp_path):
    """Each has a line with its place, size and count; where there are more than a log holds, the rest is counted."""
    folder = dropped_in.folder()
    program = dropped_in.compile_c(
        dropped_in.SOURCES / "kinds.c", tmp_path / "kinds", f"-L{folder / 'vendor'}", "-l:libcublas.so.13", f"-Wl,-rpath-link,{folder / 'vendor'}")
    ran = dropped_in.run([str(program)])
    assert len(ran.log) == 260 and all(line["count"] == 2 for line in ran.log), "a table that grew finds what it had"
    assert len({line["site"] for line in ran.log}) == 130 and {line["n"] for line in ran.log} == {100, 200}
    assert ran.summaries[0]["passed"] == 520 and ran.summaries[0]["untold"] == 0
    log = tmp_path / "log.jsonl"
    subprocess.run([str(program), "66000"], env=dropped_in.environment(LAB_LOG=str(log)), check=True, timeout=60)
    summary = json.loads(log.read_text().splitlines()[-1])
    assert summary["passed"] == 1 << 16 and summary["untold"] == 66000 - (1 << 16)


def test_threads_counters_are_summed():
    """What threads counted that are gone is added up."""
    ran = run_python(OF_CUBLAS + """
import threading
def one():
    given, c, kept = arguments("cublasSgemm_v2", handle)
    typed(default, "cublasSgemm_v2")(*given)
for _ in range(2):
    thread = threading.Thread(target=one)
    thread.start()
    thread.join()
one()
""", LD_PRELOAD=watching(), LAB_CHECK="1")
    line, = ran.log
    assert (line["count"], line["checked"], line["a_overflow"], line["repaired"]) == (3, 3, 30, 3000000)
