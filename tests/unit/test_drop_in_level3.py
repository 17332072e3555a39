"""BLAS's level 3 beside GEMM through the preload library: every argument, what is taken and what goes on, and each routine's result whoever computes it."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

import dropped_in
from dropped_in import run_python
from test_drop_in_calls import watching

pytestmark = pytest.mark.slow
SUPPORT = Path(dropped_in.__file__).parent
KINDS = """
KINDS = {  # u: a triangle; o: an operation; s: a side; d: a diagonal; the rest as FORMS has it
    "syrk": "puo II p pI p pI", "syr2k": "puo II p pI pI p pI", "syrkx": "puo II p pI pI p pI", "symm": "psu II p pI pI p pI", "trmm": "psuod II p pI pI pI",
    "trsm": "psuod II p pI pI", "hemm": "psu II p pI pI p pI", "herk": "puo II p pI p pI", "her2k": "puo II p pI pI p pI"}
STRIDED = {  # L: a stride
    "syrk": "puo II p pIL p pIL I", "syr2k": "puo II p pIL pIL p pIL I", "syrkx": "puo II p pIL pIL p pIL I", "symm": "psu II p pIL pIL p pIL I",
    "trmm": "psuod II p pIL pIL pIL I", "trsm": "psuod II p pIL pIL I", "hemm": "psu II p pIL pIL p pIL I", "herk": "puo II p pIL p pIL I",
    "her2k": "puo II p pIL pIL p pIL I"}
LISTED = {"trsm": "psuod II p pI pI I"}
OF_DOUBLE = "syrk", "syrkx"
OF = {**dict.fromkeys("SD", list(KINDS)[:6]), **dict.fromkeys("CZ", list(KINDS))}
LETTERS = {"u": (0, 1), "o": (0, 1, 2), "s": (0, 1), "d": (0, 1)}
"""
OF_CUBLAS = KINDS + """
blas, default = load(), ctypes.CDLL(None)
handle = create(default, stream=0x100)
NAMES = {f"cublas{type}{one}{'' if one == 'syrkx' else '_v2'}": one for type, kinds in OF.items() for one in kinds}
BATCHES, LISTS = {}, {f"cublas{type}trsmBatched": "trsm" for type in OF}
library_of, handle_of = (lambda name: blas), (lambda name: handle)
"""
OF_HIP = KINDS + """
hip, roc, default = load("libhipblas.so.3"), load("librocblas.so.5"), ctypes.CDLL(None)
handles = P(), P()
default.hipblasCreate(ctypes.byref(handles[0])), default.rocblas_create_handle(ctypes.byref(handles[1]))
both = [(one, type) for type, kinds in OF.items() for one in kinds]
NAMES = {f"hipblas{type}{one}": one for one, type in both} | {f"rocblas_{type.lower()}{one}": one for one, type in both}
BATCHES = {f"hipblas{type}{one}StridedBatched": one for one, type in both} | {f"rocblas_{type.lower()}{one}_strided_batched": one for one, type in both}
LISTS = {name: "trsm" for type in OF for name in (f"hipblas{type}trsmBatched", f"rocblas_{type.lower()}trsm_batched")}
LETTERS |= {"u": (122, 121), "o": (111, 112, 113), "s": (141, 142), "d": (131, 132)}
library_of, handle_of = (lambda name: hip if name[0] == "h" else roc), (lambda name: handles[name[0] != "h"])
"""
EACH = """
def function(library, name, form):
    found = getattr(library, name)
    wide = I64 if name.endswith("_64") else I32
    found.argtypes = [{"p": P, "I": wide, "L": I64}.get(one, I32) for one in form]
    return found

ALL = [(name + suffix, kind, forms[kind].replace(" ", "")) for names, forms in ((NAMES, KINDS), (BATCHES, STRIDED), (LISTS, LISTED))
       for name, kind in names.items() for suffix in ("", "_64")]
def wide(name):
    return (1 << 33) if name.endswith("_64") else 0
"""
DESCRIBED = EACH + """
watched = watch() if WATCHED else None
if watched:
    watched.watched_answer(-22, 0)
for name, kind, form in ALL:
    alpha, beta = (array(value, 0.0, real=ctypes.c_double if is_wide(name) else FLOAT) for value in (3.0, 4.0))
    for op in (0, 1, 2) if is_complex(name) and "o" in form else (0, 1):
        given, turn = [], min(op, 1)
        for at, of in enumerate(form):
            given.append(LETTERS[of][op if of == "o" else turn] if of in LETTERS
                         else 100 + at + wide(name) if of == "I" else (1 << 36) + at if of == "L" else 0x7000_0000_0000 + 64 * at)
        given[0] = handle_of(name).value
        places = [at for at, of in enumerate(form) if of == "p"][1:]
        given[places[0]] = ctypes.addressof(alpha)
        if kind not in ("trmm", "trsm"):
            given[places[-2]] = ctypes.addressof(beta)
        vendor_of = library_of(name)
        before = watched.watched_selects() if watched else 0
        vendor_of.stand_in_note(1)
        status = function(default, name, form)(*given)
        vendor_of.stand_in_note(0)
        same = noted(vendor_of, len(given)) == given
        if not watched:
            tell(**{f"{name} {op}": [status, same]})
            continue
        if (kind, op) == ("syrkx", 2):  # which is no GEMMT
            tell(**{f"{name} {op}": [status, same, watched.watched_selects() - before + 1, {}]})
            continue
        m, n = [given[at] for at, of in enumerate(form) if of == "I"][:2]
        pitches = [given[at] for at, of in enumerate(form) if of == "I"][2:]
        listed = name.removesuffix("_64") in LISTS
        strides, batch = [given[at] for at, of in enumerate(form) if of == "L"], pitches.pop() if "L" in form or listed else 1
        operands = [given[at] for at in places if at not in (places[0],) and given[at] != ctypes.addressof(beta)]
        side = turn if "s" in form else 0
        want = dict(order=1, epilogue=0, batch=batch, bias=0, flags=4 * listed, kernel=0, sized=True, uplo=turn, side=side, diag=turn * ("d" in form),
                    alpha=ctypes.addressof(alpha), beta=0 if kind in ("trmm", "trsm") else ctypes.addressof(beta), stride_a=0, stride_b=0, stride_c=0,
                    largest_error=4e-6 * (2.0**-28 if is_wide(name) else 1), element=element_of(name),
                    kind=1 + list(KINDS).index(kind), transpose_a=op * ("o" in form),
                    transpose_b=int(kind == "syrkx" and not turn))
        if "s" in form:
            want |= dict(m=m, n=n, k=n if turn else m)
        else:
            want |= dict(m=m, n=m, k=n)
        if kind in ("syrk", "herk"):
            want |= dict(a=operands[0], b=0, c=operands[1], lda=pitches[0], ldb=0, ldc=pitches[1])
        elif kind == "trsm":
            want |= dict(a=operands[0], b=operands[1], c=operands[1], lda=pitches[0], ldb=pitches[1], ldc=pitches[1])
        else:
            want |= dict(zip("abc", operands)) | dict(zip(("lda", "ldb", "ldc"), pitches))
        if strides:
            apart = [strides[0], 0, strides[1]] if kind in ("syrk", "herk") else [strides[0], strides[1], strides[-1]]
            want |= dict(zip(("stride_a", "stride_b", "stride_c"), apart))
        got = watched.watched_problem().contents.told()
        tell(**{f"{name} {op}": [status, same, watched.watched_selects() - before, {key: [got[key], want[key]] for key in want if got[key] != want[key]}]})
"""


@pytest.mark.parametrize("kind, vendor, count, adjoint, across", [("cublas", OF_CUBLAS, 68, 32, 4), ("hipblas", OF_HIP, 256, 120, 16)], ids=["cublas", "hipblas"])
def test_every_argument_is_passed_on_and_described(kind, vendor, count, adjoint, across):
    """All different and of 64 bits where their types are; the vendor's status is the caller's."""
    off = run_python(vendor + "WATCHED = False\n" + DESCRIBED, kind, LAB_OFF="1")
    assert off.told == {name: [77, True] for name in off.told} and len(off.told) == 2 * count + adjoint
    on = run_python(vendor + "WATCHED = True\n" + DESCRIBED, kind, LD_PRELOAD=watching(kind))
    assert on.told == {name: [77, True, 1, {}] for name in on.told} and len(on.told) == 2 * count + adjoint
    assert {line["detail"] for line in on.log if "detail" in line} == {"no driver"} and len(on.log) == 2 * count + adjoint
    passed = [line["routine"] for line in on.log if "operation" in line["reason"]]
    assert len(passed) == across and all("syrkx" in one for one in passed), "A B^H is no SYRKX"
    for line in on.log:
        letter = line["routine"].removeprefix("cublas").removeprefix("hipblas").removeprefix("rocblas_")[0].lower()
        assert line.get("element") == {"s": None, "d": "f64", "c": "c64", "z": "c128"}[letter]
        assert ("side" in line) == (line["kind"] in ("symm", "hemm", "trmm", "trsm")) and ("diag" in line) == (line["kind"] in ("trmm", "trsm"))
        assert line.get("side", "left" if line["uplo"] == "lower" else "right") == ("right" if line["uplo"] == "upper" else "left")
        assert line.get("diag", "unit") == "unit" or line["uplo"] == "lower"


RUN = EACH + """
sys.path.insert(0, SUPPORT)
sys.path[:0] = PATHS
import level3
import numpy as np

BY = {"SSYRK": "syrk", "SSYR2K": "syr2k", "SGEMMT": "syrkx", "SSYMM": "symm", "STRMM": "trmm", "STRSM": "trsm"}
CODES = {"side": "s", "uplo": "u", "trans": "o", "transa": "o", "diag": "d"}
LETTER = {"side": "LR", "uplo": "LU", "trans": "NT", "transa": "NT", "diag": "NU"}
names = {(kind, is_wide(name)): name for name, kind in reversed(NAMES.items()) if not is_complex(name)}
WIDE = {"SSYRK": "syrk", "SGEMMT": "syrkx"}

def asked(calls):
    # SYRKX is GEMMT whose operands have one operation.
    return (one for one in calls if one.letters.get("transa", "") != one.letters.get("transb"))

def of_double(routine, extents):
    # Every letter; then alpha of 0, of which A and B are not read.
    return [*asked(level3.some(routine, extents, seed=3, real=np.float64)), *asked(level3.calls(routine, (5,), (0.0,), (1.3, 0.0), real=np.float64))]

def run(one):
    kind = (WIDE if one.real is np.float64 else BY)[one.routine]
    name, given = names[kind, one.real is np.float64], []
    for argument in level3.ROUTINES[one.routine].arguments:
        value = one.value(argument)
        if argument == "transb":
            continue
        if argument in CODES:
            given.append(LETTERS[CODES[argument]][LETTER[argument].index(value)])
        elif isinstance(value, np.ndarray):
            given.append(value.ctypes.data)
        elif argument in ("alpha", "beta"):
            kept.append((ctypes.c_double if one.real is np.float64 else FLOAT)(value))
            given.append(ctypes.addressof(kept[-1]))
        else:
            given.append(value)
    if one.routine == "STRMM":
        given += given[-2:]
    kept[:] = kept[-4:]
    return function(default, name, KINDS[kind].replace(" ", ""))(handle_of(name), *given)

kept = []
for routine in BY:
    tell(**{routine: list(level3.faults(run, asked(level3.some(routine, (0, 5, 9, 17), seed=3))))})
for routine in WIDE:
    tell(**{f"{routine} of double": list(level3.faults(run, of_double(routine, (0, 5, 9, 17))))})
tell(products=kernels())
"""


@pytest.mark.parametrize("kind, vendor", [("cublas", OF_CUBLAS), ("hipblas", OF_HIP)])
@pytest.mark.parametrize("taken", [True, False])
def test_each_routine_is_right_whoever_computes_it(kind, vendor, taken):
    """As tests/support/level3.py asks: by the library, and by the vendor's where it is predicted to be faster."""
    script = vendor + RUN.replace("SUPPORT", repr(str(SUPPORT))).replace("PATHS", repr([one for one in sys.path if one])).replace("DRIVER", (
        "driver = driver('libamdhip64.so.7' if 'hip' in dir() else 'libcuda.so.1')" if kind == "hipblas" else "driver()"))
    ran = run_python(script, kind, LAB_MIN_GAIN="0" if taken else "1e9", log=True)
    assert [ran.told[name] for name in ("SSYRK", "SSYR2K", "SGEMMT", "SSYMM", "STRMM", "STRSM", "SSYRK of double", "SGEMMT of double")] == [[]] * 8
    served = {(line["kind"], line.get("element", "f32")) for line in ran.log if line["taken"]}
    assert served == ({*((kind, "f32") for kind in ("syrk", "syr2k", "gemmt", "symm", "trmm", "trsm")), ("syrk", "f64"), ("gemmt", "f64")} if taken else set())
    zeros = {(line["alpha"], line["beta"]) for line in ran.log if line.get("element") == "f64"}
    assert zeros == {("other", "other"), ("other", "zero"), ("zero", "other"), ("zero", "zero")}
    assert ran.told["products"] == sum(line["count"] for line in ran.log if line["taken"])
    reasons = {line.get("reason") for line in ran.log if line["kind"] == "trsm"}
    assert reasons == {"there is nothing to multiply", None if taken else "the vendor's is predicted to be faster"}


IN_BATCHES = RUN.split("def run(")[0] + """
names = {(kind, name[0], is_wide(name)): (name, STRIDED) for name, kind in BATCHES.items() if not is_complex(name)}
names |= {(kind, name[0], "listed"): (name, LISTED) for name, kind in LISTS.items() if not is_complex(name) and not is_wide(name)}
found = {}
for (kind, vendor_of, _), (name, forms) in names.items():
    wide, strides = is_wide(name), "L" in forms[kind]
    routine, real = next((one for one, of in (WIDE if wide else BY).items() if of == kind), None), np.float64 if wide else np.float32
    if routine is None:
        continue
    for one in of_double(routine, (5, 9)) if wide else asked(level3.some(routine, (5, 9), seed=3)):
        pair = [one, level3.call(routine, one.letters, one.extents, one.alpha, one.beta, seed=99, real=real)]
        apart = {x: np.stack([each.stored[x] for each in pair]) for x in one.stored}
        given, kept = [], []
        for argument in level3.ROUTINES[routine].arguments:
            value = one.value(argument)
            if argument == "transb":
                continue
            if argument in CODES:
                given.append(LETTERS[CODES[argument]][LETTER[argument].index(value)])
            elif isinstance(value, np.ndarray):
                kept.append(np.array([each.ctypes.data for each in apart[argument]]))
                given.append((apart[argument] if strides else kept[-1]).ctypes.data)
            elif argument in ("alpha", "beta"):
                kept.append((ctypes.c_double if wide else FLOAT)(value))
                given.append(ctypes.addressof(kept[-1]))
            else:
                given.append(value)
                if argument.startswith("ld") and strides:
                    given.append(apart[argument[2:]][0].size)
        if routine == "STRMM":
            given += given[-3:]
        function(default, name, forms[kind].replace(" ", ""))(handle_of(name), *given, 2)
        for each, of in enumerate(pair):
            for x in of.stored:
                of.stored[x][...] = apart[x][each]
            found[f"{name} {one}"] = level3.fault(lambda _: 0, of)
tell(faults={name: told for name, told in found.items() if told}, count=len(found))
"""


@pytest.mark.parametrize("kind, vendor, functions, count", [
    ("cublas", OF_CUBLAS, 1, 2 * 16), ("hipblas", OF_HIP, 2 * (6 + 2 + 1), 2 * 2 * (4 + 4 + 4 + 4 + 16 + 16 + 16) + 2 * (16 + 16))])
@pytest.mark.parametrize("taken", [True, False])
def test_both_of_a_batch_are_right_whoever_computes_them(kind, vendor, functions, count, taken):
    """A stride apart, or told by arrays of pointers."""
    script = vendor + IN_BATCHES.replace("SUPPORT", repr(str(SUPPORT))).replace("PATHS", repr([one for one in sys.path if one]))
    ran = run_python(script, kind, LAB_MIN_GAIN="0" if taken else "1e9", log=True)
    assert ran.told["faults"] == {} and ran.told["count"] == count
    assert len({line["routine"] for line in ran.log if line["taken"]}) == (functions if taken else 0)
    assert {line["batch"] for line in ran.log} == {2}


WRONG = EACH + """
x, scalar = array(*([0.5] * 64)), array(2.0)
at = ctypes.addressof
for kind, letters in (("syrk", (7, 0)), ("syrk", (1, 7)), ("symm", (7, 0)), ("trmm", (0, 0, 0, 7)), ("trsm", (0, 7, 0, 0))):
    operands = (at(x), 5) if kind == "syrk" else (at(x), 5, at(x), 5)
    function(default, f"cublasS{kind}_v2", KINDS[kind].replace(" ", ""))(
        handle, *letters, 5, 5, at(scalar), *operands, *((at(scalar), at(x), 5) if kind in ("syrk", "symm") else (at(x), 5) if kind == "trmm" else ()))
form = KINDS["syrk"].replace(" ", "")
syrk = function(default, "cublasSsyrk_v2", form)
syrk(handle, 0, 0, 5, 0, at(scalar), at(x), 5, at(scalar), at(x), 5)
blas.cublasSetMathMode(handle, 3)
syrk(handle, 0, 0, 5, 5, at(scalar), at(x), 5, at(scalar), at(x), 5)
blas.cublasSetMathMode(handle, 0), blas.cublasSetPointerMode_v2(handle, 1)
syrk(handle, 0, 0, 5, 5, at(scalar), at(x), 5, at(scalar), at(x), 5)
x, scalar = array(*([0.5] * 64), real=ctypes.c_double), array(2.0, real=ctypes.c_double)
for kind in OF_DOUBLE:
    of_double = function(default, "cublasDsyrk_v2" if kind == "syrk" else "cublasDsyrkx", KINDS[kind].replace(" ", ""))
    one = lambda uplo=0, op=0, k=5: of_double(handle, uplo, op, 5, k, at(scalar), at(x), 5, *((at(x), 5) if kind == "syrkx" else ()), at(scalar), at(x), 5)
    for mode in (0, 1, 3, 19, 2, 4, 8):
        blas.cublasSetMathMode(handle, mode)
        one()
    blas.cublasSetMathMode(handle, 0), blas.cublasSetPointerMode_v2(handle, 2)
    one()
    blas.cublasSetPointerMode_v2(handle, 1)
    one(uplo=7), one(op=7), one(k=0), one(k=3)
"""


def test_calls_that_go_on_say_why():
    ran = run_python(OF_CUBLAS.replace("create(default, stream=0x100)", "create(default)") + WRONG)
    stands, operation = "a side, a triangle or a diagonal is none of its values", "an operation is neither n, t nor c"
    assert ran.counts == {
        f"cublasSsyrk_v2: {stands}": 1, f"cublasSsyrk_v2: {operation}": 1, f"cublasSsymm_v2: {stands}": 1, f"cublasStrmm_v2: {stands}": 1,
        f"cublasStrsm_v2: {stands}": 1, "cublasSsyrk_v2: there is nothing to multiply": 1, "cublasSsyrk_v2: the math mode asks for something else": 1,
        "cublasSsyrk_v2: taken": 1,
        **{f"{name}: {reason}": count for name in ("cublasDsyrk_v2", "cublasDsyrkx") for reason, count in (
            ("taken", 4), ("the math mode asks for something else", 3), ("alpha and beta are vectors", 1), (stands, 1), (operation, 1),
            ("there is nothing to multiply", 1), ("no kernel made for this device serves it", 1))},
    }
    [taken] = [line for line in ran.log if line["taken"] and "element" not in line]
    assert (taken["alpha"], taken["beta"], taken["m"], taken["n"], taken["k"]) == ("device", "device", 5, 5, 5)


IN_PLACE = EACH + """
watched = watch()
a, b, c, scalar = (array(*([0.5] * 64)) for _ in range(4))
trmm, symm = (function(default, f"cublasS{kind}_v2", KINDS[kind].replace(" ", "")) for kind in ("trmm", "symm"))
at = ctypes.addressof
nothing = array(0.0)  # as beta, which a triangular product has not: only the kind differs
symm(handle, 0, 0, 5, 5, at(scalar), at(a), 5, at(b), 5, at(nothing), at(c), 5)
for to in (c, b, c, b):
    trmm(handle, 0, 0, 0, 0, 5, 5, at(scalar), at(a), 5, at(b), 5, at(to), 5)
tell(selects=watched.watched_selects(), products=kernels())
"""


def test_another_kind_and_a_product_in_place_are_other_decisions():
    """Its workspace may be larger; the same call again is remembered."""
    ran = run_python(OF_CUBLAS + IN_PLACE, LD_PRELOAD=watching(), LAB_MIN_GAIN="0")
    assert ran.told == {"selects": 3, "products": 5}


OLD = """
roc, default = load("librocblas.so.3"), ctypes.CDLL(None)
handle = P()
roc.rocblas_create_handle(ctypes.byref(handle))
trmm = default.rocblas_strmm
trmm.argtypes = [P, I32, I32, I32, I32, I32, I32, P, P, I32, P, I32, P, I32]
a, b, c, scalar = (array(*([0.5] * 64)) for _ in range(4))
at = ctypes.addressof
tell(status=trmm(handle, 141, 122, 111, 131, 5, 5, at(scalar), at(a), 5, at(b), 5, at(c), 5), products=kernels())
"""


def test_amd_s_older_trmm_which_has_no_c_goes_on(tmp_path):
    """rocBLAS has one since version 4: two arguments of an older program's call are not there."""
    shutil.copy(dropped_in.folder("hipblas") / "vendor" / "librocblas.so.5", tmp_path / "librocblas.so.3")
    ran = run_python(OLD.replace('"librocblas.so.3"', repr(str(tmp_path / "librocblas.so.3"))), "hipblas", LAB_MIN_GAIN="0")
    assert ran.told == {"status": 0, "products": 0} and ran.counts == {"rocblas_strmm: the vendor's function has other arguments": 1}
