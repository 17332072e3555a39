"""A library's functions for JAX, over the reference library on the CPU. `make test` installs JAX where it can be had; elsewhere these skip, and
tests/unit/test_library_xla.py has the handler without JAX."""

from __future__ import annotations

import itertools
import subprocess
from types import SimpleNamespace

import pytest

jax = pytest.importorskip("jax", reason="JAX is not installed")

import jax.numpy as jnp
import numpy as np

import reference
from ways import covering


@pytest.fixture(scope="module")
def lab():
    reference.compile_xla()
    return reference.imported("lab.jax")


@pytest.fixture(scope="module")
def library():
    return reference.load()


def made(*shape, seed=0):
    return jnp.asarray(np.random.default_rng(seed + sum(shape)).standard_normal(shape, dtype=np.float32))


def close(got, want):
    assert got.shape == want.shape and got.dtype == np.float32
    np.testing.assert_allclose(got, np.asarray(want, np.float64), rtol=1e-5, atol=1e-5)


def test_the_interface_is_as_xla_s_own_header_has_it(tmp_path):
    """Offsets and values that the handler states itself, against the header that jaxlib ships."""
    source = (reference.package() / "lab" / "_xla.c").read_text()
    pairs = {
        "frame": "CallFrame size:struct_size start:extension_start api context:ctx stage operands:args results:rets given:attrs",
        "buffers": "Args size:struct_size start:extension_start count:size types each:args", "extension": "Extension_Base size:struct_size type next",
        "attributes": "Attrs size:struct_size count:size types names each:attrs", "buffer": "Buffer size:struct_size type:dtype data rank extents:dims",
        "metadata": "Metadata size:struct_size version:api_version traits", "metadata_extension": "Metadata_Extension base:extension_base told:metadata",
        "api_version": "Api_Version size:struct_size major:major_version minor:minor_version", "span": "ByteSpan text:ptr length:len",
        "scalar": "Scalar type:dtype value", "error_create": "Error_Create_Args size:struct_size start:extension_start message code:errc",
        "stream_get": "Stream_Get_Args size:struct_size context:ctx stream", "error_destroy": "Error_Destroy_Args size:struct_size error",
        "xla_api": "Api size:struct_size version:api_version create_error:XLA_FFI_Error_Create destroy_error:XLA_FFI_Error_Destroy "
                   "get_stream:XLA_FFI_Stream_Get",
    }
    checks = []
    for own, told in pairs.items():
        theirs, *fields = told.split()
        for field in fields:
            mine, _, other = field.partition(":")
            checks.append(f"_Static_assert(offsetof({own}, {mine}) == offsetof(struct XLA_FFI_{theirs}, {other or mine}), \"{own}.{mine}\");")
    for mine, theirs in {
        "METADATA": "Extension_Metadata", "ATTRIBUTE_SCALAR": "AttrType_SCALAR",
        "TYPE_S64": "DataType_S64", "TYPE_U8": "DataType_U8", "TYPE_F32": "DataType_F32",
        "STAGE_EXECUTE": "ExecutionStage_EXECUTE", "STAGE_INITIALIZE": "ExecutionStage_INITIALIZE",
        "INVALID_ARGUMENT": "Error_Code_INVALID_ARGUMENT", "INTERNAL": "Error_Code_INTERNAL",
        "RESOURCE_EXHAUSTED": "Error_Code_RESOURCE_EXHAUSTED", "FAILED_PRECONDITION": "Error_Code_FAILED_PRECONDITION",
    }.items():
        checks.append(f'_Static_assert({mine} == (int)XLA_FFI_{theirs}, "{mine}");')
    checks.append('_Static_assert(XLA_MAJOR == XLA_FFI_API_MAJOR && XLA_MINOR <= XLA_FFI_API_MINOR, "version");')
    path = tmp_path / "checked.c"
    path.write_text(source + '\n#include "xla/ffi/api/c_api.h"\n#include "lab.h"\n' + "\n".join(checks) + "\n")
    folders = f"-I{jax.ffi.include_dir()}", f"-I{reference.folder()}"
    done = subprocess.run(["gcc", "-std=gnu11", "-c", *folders, "-o", tmp_path / "checked.o", path], capture_output=True, text=True)
    assert not done.returncode, done.stderr


SHAPES = [
    ((5, 9), (9, 7)), ((4, 5, 9), (9, 7)), ((4, 5, 9), (4, 9, 7)), ((5, 9), (4, 9, 7)), ((2, 3, 5, 9), (3, 9, 7)), ((9,), (9, 7)), ((5, 9), (9,)), ((9,), (9,)),
    ((0, 9), (9, 7)), ((5, 0), (0, 7)), ((0, 5, 9), (0, 9, 7)), ((1, 5, 9), (0, 9, 7)),
]


@pytest.mark.parametrize("a, b", SHAPES)
def test_shapes_broadcast_as_jnp_matmul_does(lab, a, b):
    a, b = made(*a), made(*b)
    close(lab.matmul(a, b), jnp.matmul(a, b))
    close(jax.jit(lab.matmul)(a, b), jnp.matmul(a, b))


def test_one_call_of_the_library_each(lab, library):
    before = library.lab_calls()
    jax.jit(lab.matmul)(made(2, 3, 5, 9), made(9, 7)).block_until_ready()
    assert library.lab_calls() == before + 1


def test_lowering_is_a_call_with_attributes(lab):
    text = jax.jit(lab.matmul).lower(made(5, 9), made(9, 7)).as_text()
    assert "stablehlo.custom_call @lab_gemm" in text and "transpose_a = 0 : i64" in text and "epilogue = 0 : i64" in text
    assert "tensor<1280xui8>" in text  # the workspace of 1024 bytes, and room to align it


ACTIVATIONS = {
    None: lambda x: x, "relu": jax.nn.relu, "gelu": lambda x: jax.nn.gelu(x, approximate=False), "gelu_tanh": lambda x: jax.nn.gelu(x, approximate=True),
}


OPERANDS = {"matrices": ((5, 9), (9, 7)), "batches": ((3, 5, 9), (3, 9, 7)), "one A": ((5, 9), (3, 9, 7))}


@pytest.mark.parametrize(("activation", "operands"), covering(itertools.product(ACTIVATIONS, OPERANDS)))
def test_gradients(lab, activation, operands):
    a, b, bias = *(made(*shape) for shape in OPERANDS[operands]), made(7)

    def own(a, b, bias):
        return (lab.matmul(a, b, bias=bias, activation=activation) * weights).sum()

    def theirs(a, b, bias):
        return (ACTIVATIONS[activation](jnp.matmul(a, b) + bias) * weights).sum()

    weights = made(*jnp.matmul(a, b).shape, seed=3)
    for got, want in zip(jax.jit(jax.grad(own, (0, 1, 2)))(a, b, bias), jax.grad(theirs, (0, 1, 2))(a, b, bias)):
        close(got, want)


def test_second_gradients(lab):
    a, b = made(3, 4), made(4, 5)

    def twice(product):
        return jax.grad(lambda b: jax.grad(lambda a: (product(a, b) ** 3).sum())(a).sum())(b)

    close(twice(lab.matmul), twice(jnp.matmul))


@pytest.mark.parametrize("of_a, of_b", [(0, None), (None, 0), (0, 0), (1, 2)])
def test_vmap(lab, library, of_a, of_b):
    a = made(*{None: (5, 9), 0: (3, 5, 9), 1: (5, 3, 9)}[of_a])
    b = made(*{None: (9, 7), 0: (3, 9, 7), 2: (9, 7, 3)}[of_b])
    want = jax.vmap(jnp.matmul, (of_a, of_b))(a, b)
    before = library.lab_calls()
    close(jax.vmap(lab.matmul, (of_a, of_b))(a, b).block_until_ready(), want)
    assert library.lab_calls() == before + 1

    def loss(product):
        return lambda a, b: (jax.vmap(product, (of_a, of_b))(a, b) ** 2).sum()

    for got, wanted in zip(jax.grad(loss(lab.matmul), (0, 1))(a, b), jax.grad(loss(jnp.matmul), (0, 1))(a, b)):
        close(got, wanted)


def test_vmap_of_vmap_and_of_a_bias(lab):
    a, b, bias = made(2, 3, 5, 9), made(3, 9, 7), made(2, 7)

    def own(a, b, bias):
        return lab.matmul(a, b, bias=bias, activation="relu")

    def theirs(a, b, bias):
        return jax.nn.relu(a @ b + bias)

    for axes in ((0, None, 0), (0, None, None)):
        bias_of = bias if axes[2] == 0 else bias[0]
        inner = (0, 0, None)
        got, want = (jax.vmap(jax.vmap(of, inner), axes)(a, b, bias_of) for of in (own, theirs))
        close(got, want)
    close(jax.vmap(own, (None, None, 0))(a[0, 0], b[0], bias), jax.vmap(theirs, (None, None, 0))(a[0, 0], b[0], bias))
    for x, y, of_a in ((a[0], b, 0), (a[:, 0], b, None)):
        inner, outer = ((0, None, None), (None, 0, None)) if of_a == 0 else ((None, 0, None), (0, None, None))
        got, want = (jax.vmap(jax.vmap(of, inner), outer)(x, y, bias[0]) for of in (own, theirs))
        close(got, want)
    a, b, numbers = made(3, 9, 5), made(9, 7), (((0,), (0,)), ((), ()))  # rows of A are columns of what is stored: no product of more rows
    close(jax.vmap(lambda x: lab.dot_general(x, b, numbers))(a), jax.vmap(lambda x: jax.lax.dot_general(x, b, numbers))(a))


DOTS = [
    ((5, 9), (9, 7), (((1,), (0,)), ((), ()))), ((9, 5), (9, 7), (((0,), (0,)), ((), ()))), ((5, 9), (7, 9), (((1,), (1,)), ((), ()))),
    ((9, 5), (7, 9), (((0,), (1,)), ((), ()))),
    ((2, 5, 3, 4), (2, 3, 4, 7), (((2, 3), (1, 2)), ((0,), (0,)))), ((5, 2, 9), (9, 7, 2), (((2,), (0,)), ((1,), (2,)))), ((3, 5), (7,), (((), ()), ((), ()))),
]


@pytest.mark.parametrize("a, b, numbers", DOTS)
def test_dot_general(lab, library, a, b, numbers):
    a, b = made(*a), made(*b)
    before = library.lab_calls()
    close(lab.dot_general(a, b, numbers).block_until_ready(), jax.lax.dot_general(a, b, numbers))
    assert library.lab_calls() == before + 1
    for got, want in zip(*(jax.grad(lambda a, b: (of(a, b, numbers) ** 2).sum(), (0, 1))(a, b) for of in (lab.dot_general, jax.lax.dot_general))):
        close(got, want)


def test_dot_general_passes_other_types_on(lab, library):
    a, b, numbers = made(5, 9).astype(jnp.bfloat16), made(9, 7).astype(jnp.bfloat16), (((1,), (0,)), ((), ()))
    before = library.lab_calls()
    assert lab.dot_general(a, b, numbers).dtype == jnp.bfloat16 and library.lab_calls() == before


def test_refusals(lab):
    for arguments, kind, told in (
        ((made(5, 9), made(8, 7)), ValueError, "do not fit"), ((made(5, 9), jnp.zeros((9, 7), jnp.bfloat16)), TypeError, "float32"),
        ((jnp.float32(1), made(9, 7)), ValueError, "scalars"),
    ):
        with pytest.raises(kind, match=told):
            lab.matmul(*arguments)
    with pytest.raises(ValueError, match="activation"):
        lab.matmul(made(5, 9), made(9, 7), activation="tanh")


@pytest.mark.parametrize(("prefix", "capability", "arch"), [
    ("sm_", "9.0", "sm_90"), ("sm_", "12.0", "sm_120"), ("gfx", "gfx942", "gfx942"), ("gfx", "gfx90a", "gfx90a"),
])
def test_programs_are_compiled_for_the_first_gpu(lab, monkeypatch, prefix, capability, arch):
    """Whose workspaces they have; on the CPU there is one device."""
    assert lab._target.__wrapped__() == (None, "cpu")
    devices = [SimpleNamespace(compute_capability=one, core_count=count) for one, count in ((capability, 77), ("1.0", 2))]
    monkeypatch.setattr(lab.jax, "local_devices", lambda backend: devices if backend == "gpu" else [])
    monkeypatch.setattr(lab._c, "XLA_PLATFORM", "CUDA")
    monkeypatch.setattr(lab._c, "ARCH_PREFIX", prefix)
    on, key = lab._target.__wrapped__()
    assert (on.arch.decode(), on.units, key) == (arch, 77, arch)


def test_where_the_handler_is_looked_for(lab, monkeypatch, tmp_path):
    """Where the environment says, and nowhere else then; the message has the command that compiles it."""
    monkeypatch.setenv("LAB_XLA", str(tmp_path / "none.so"))
    with pytest.raises(ImportError, match=rf"no liblab_xla.so in {tmp_path}: cc -std=c99 .*_xla.c -o .*liblab_xla.so"):
        lab._handler.__wrapped__()
    monkeypatch.delenv("LAB_XLA")
    monkeypatch.setattr(lab, "__file__", str(tmp_path / "jax.py"))
    monkeypatch.setattr(lab._c, "path", lambda: tmp_path / "beside" / "liblab.so")
    with pytest.raises(ImportError, match=rf"in {tmp_path}, {tmp_path}/beside: cc"):
        lab._handler.__wrapped__()


def test_the_numpy_like_call_takes_arrays_of_jax(lab):
    import lab as package

    close(package.matmul(made(5, 9), made(9, 7)), made(5, 9) @ made(9, 7))


def test_the_handler_refuses_what_it_cannot_serve(lab):
    shape = jax.ShapeDtypeStruct((5, 7), np.float32), jax.ShapeDtypeStruct((0,), np.uint8)
    with pytest.raises(Exception, match="needs int64 attributes"):
        jax.ffi.ffi_call("lab_gemm", shape)(made(5, 9), made(9, 7), transpose_a=np.int64(0))[0].block_until_ready()
    attributes = {name: np.int64(0) for name in ("transpose_a", "transpose_b", "epilogue")}
    with pytest.raises(Exception, match="shapes do not fit"):
        jax.ffi.ffi_call("lab_gemm", shape)(made(5, 9), made(8, 7), **attributes)[0].block_until_ready()
    with pytest.raises(Exception, match="epilogue"):
        jax.ffi.ffi_call("lab_gemm", shape)(made(5, 9), made(9, 7), **attributes | {"epilogue": np.int64(9)})[0].block_until_ready()
    got = jax.ffi.ffi_call("lab_gemm", shape)(made(5, 9), made(9, 7), **attributes)[0]  # no workspace: the library's own
    close(got, made(5, 9) @ made(9, 7))
