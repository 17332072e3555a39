"""`gemmgen.matmul`: the product of two arrays of any library, at FP32's accuracy and by what is fastest on this machine.

For arrays in a GPU's memory there are two ways: a library of gemmgen's kernels for that GPU (`gemmgen.library.kept`), and the product of the arrays' own
library. Which is taken is decided at the first call with arrays that lie alike, and kept in a table: by the library's predictions where these are far
apart, else by timing both.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from functools import cache, partial
from importlib import import_module
from math import prod
from types import ModuleType
from typing import TYPE_CHECKING, Any

from gemmgen.api.notes import note, note_no_gpu, note_refused, note_type
from gemmgen.api.operands import as_numpy, check_dense, check_devices, home_of, refuse_truth, refuse_two_libraries
from gemmgen.api.reproducible import reproducible_product
from gemmgen.api.shapes import check_shapes, extents
from gemmgen.api.torch_fp32 import fp32_of
from gemmgen.api.torch_state import alike, settings, watched
from gemmgen.api.wide import ELEMENTS, kind_of, wide_product
from gemmgen.errors import GemmgenError, SpecError, UnknownName

if TYPE_CHECKING:
    from gemmgen.run.here import Here

__all__ = ["ACCURACIES", "matmul"]

ACCURACIES = ("fp32", "fp64", "reproducible")
CLEAR = 2.0
"""Predicted times of both ways that are further apart than this factor decide; nearer ones are measured."""
HOST_SECONDS = 50e-6
"""Products that take less than this are measured whatever is predicted: the host's time, which no prediction has, may decide them."""
BRIEF_SECONDS = 10e-6
"""A product that torch is predicted to take less for waits for the host. Where torch won such a race, strides are not looked at again: they cost a look-up."""
OPERATOR_SECONDS = 60e-6
"""What a torch operator with a gradient takes of the host (docs/frameworks.md): products that save less go to torch."""
WORTH_A_COPY = 512**3
"""Multiply-adds of NumPy's arrays from which on it is tried whether a GPU is faster, copies included."""
LIGHT = 4 * 192**2
"""Bytes: two float32 operands that both have no more are multiplied by their own library. The GPU takes less time for them than the host does to enqueue a
product, by either way; an H200 takes 2 to 6 us for torch.mm's squares of 16 to 192, and 7 to 13 us for those of a library's kernels (replayed graphs of 20)."""
ROUNDS, SLICE_SECONDS, MOST_CALLS, MOST_KEPT, MOST_TESTED = 5, 2e-3, 20, 4096, 4

Product = Callable[[Any, Any], Any]

_products: dict[Any, Product] = {}
"""By both types and the accuracy."""
_short: dict[Any, Product] = {}
"""Of torch's tensors, by both shapes and the accuracy: functions that check what else decides, and leave to `_by_types` what they are not for."""
_is_traced: Callable[[], bool] = bool
"""Whether torch.compile reads this: torch's function, once torch is here. It may not read tables, which change from call to call."""

# The way of torch's light products. `matmul` reads these names of the module, which take less time than attributes; `_Torch` sets them.
_tensor: Any = None
_parameter: Any = None
_float32: Any = None  # torch's types, None before torch is here
_own_types: set[Any] = set()  # types whose `Notice` was given where they have one: light products of them are torch's, too
_light = -1
"""`LIGHT`, once a first light product was decided: it may have a `Notice` for its caller."""
_on_gpu = True
_is_reduced: Callable[[], bool] = bool
_autocasts: Callable[[], bool] = bool
_multiply: Product | None = None
"""Of tensors in a GPU's memory, or of the CPU's: `torch_state.settings`, and torch's product."""


def matmul(a: Any, b: Any, accuracy: str = "fp32") -> Any:
    """a @ b, for arrays of NumPy, CuPy, torch, JAX and any other library of the array API; lists are NumPy's arrays.

    The result's library, device, shape and type are those of `a @ b`. float32 arrays of CuPy, torch and JAX in a GPU's memory are multiplied by gemmgen's
    kernels on the matrix units, or by their own library in FP32 without TF32 where that is faster, as for operands up to 192 x 192. The first larger
    product on a GPU builds a library of kernels for it, once: it is kept in the cache folder. NumPy's float32 arrays are copied to a GPU where that pays.
    Large float64, complex64 and complex128 arrays of CuPy and torch in a GPU's memory are multiplied by kernels of their type where these are faster than
    native arithmetic. All others are multiplied by their own library, and a `gemmgen.errors.Notice` says so once. torch and JAX have gradients.

    Args:
        a: [..., m, k] or [k], in any order and strides.
        b: [..., k, n] or [k]. Batches broadcast.
        accuracy: `fp32`: errors as the arrays' own type has. `fp64`: both are converted to float64, or to complex128 where one is complex, first; the
            result has that type. `reproducible`: the same bits on every GPU, by kernels alone, of arrays of CuPy and torch in a GPU's memory.

    Returns:
        [..., m, n], in the current stream of the arrays' library.

    Raises:
        SpecError: shapes do not fit; a and b are of two libraries, types or devices; or one is no array of numbers, or has masked elements.
        UnknownName: there is no such accuracy.
    """
    # tests/unit/test_api.py counts the steps of a later call: on the way of light products, 4 attributes and 4 calls, each adds 0.3 % to torch.mm's time.
    if (type(a) is _tensor or type(a) is _parameter) and not _is_traced():
        try:
            if a.nbytes <= _light and b.nbytes <= _light and a.is_cuda is _on_gpu and accuracy == "fp32" and not _is_reduced():
                c = _multiply(a, b)
                if c.dtype is _float32 or c.dtype in _own_types and not _autocasts():  # of float32 autocast makes another type: one question for both
                    return c
            short = _short.get((a.shape, b.shape, accuracy))
        except (AttributeError, RuntimeError, TypeError):  # torch's refusals, said below; a list and a nested tensor have no shape; extents may be symbols
            short = None
        if short is not None:
            return short(a, b)
    return _by_types(a, b, accuracy)


def _by_types(a: Any, b: Any, accuracy: str = "fp32") -> Any:
    try:
        product = _products.get((type(a), type(b), accuracy))
    except TypeError:  # a list for the accuracy
        product = None
    if product is None:
        product = _kept(_products, (type(a), type(b), accuracy), _product_of(a, b, accuracy))
    return product(a, b)


def _kept(table: dict[Any, Product], key: Any, product: Product) -> Product:
    """It, put into a table that is emptied where it would grow without end."""
    if len(table) >= MOST_KEPT:
        table.clear()
    table[key] = product
    return product


def _product_of(a: Any, b: Any, accuracy: str) -> Product:
    if accuracy not in ACCURACIES:
        raise UnknownName("matmul: accuracy", "accuracy", accuracy, ACCURACIES)
    homes = [home_of(x, name) for x, name in ((a, "a"), (b, "b"))]
    refuse_two_libraries(a, b, homes)
    front = _front(homes[0])
    return {"fp32": front.product, "fp64": front.in_fp64, "reproducible": partial(reproducible_product, front, _package)}[accuracy]


@cache
def _front(home: ModuleType) -> _Front:
    return {"torch": _Torch, "jax": _Jax, "cupy": _Cupy, "numpy": _Numpy}.get(home.__name__, _Front)(home)


@cache
def _package(gpu: Here, element: str = "f32", which: str = "") -> ModuleType | None:
    """The library of a GPU and a type of elements; None where there is none: a `Notice` says so once."""
    from gemmgen.library import kept

    def progress(step: str) -> None:
        note(f"build {gpu.title} {element}{which}", f"builds its library of {element} kernels for {gpu.title}, once, which takes about 40 s of a core")

    try:
        return kept.package(gpu, progress, element, *filter(None, [which]))
    except GemmgenError as error:
        note(f"no library {gpu.title} {element}", f"there is no library of {element} kernels for {gpu.title}, so the arrays' own library multiplies:\n{error}")
        return None


def _first_is_faster(first: Product, second: Product, a: Any, b: Any, synchronize: Callable[[], None], expected: float) -> bool:
    """Times both in turns, the host's time included.

    Args:
        expected: seconds of a product.
    """
    calls = max(2, min(MOST_CALLS, int(SLICE_SECONDS / max(expected, 1e-9))))
    least = []
    for product in (first, second):
        product(a, b)
    for _ in range(ROUNDS):
        for product in (first, second):
            synchronize()
            start = time.perf_counter()
            for _ in range(calls):
                product(a, b)
            synchronize()
            least.append(time.perf_counter() - start)
    return min(least[::2]) < min(least[1::2])


def _chosen(choices: Sequence[Any], own: Product, vendor: Product, a: Any, b: Any, synchronize: Callable[[], None] | None) -> Product:
    """The faster way.

    Args:
        choices: what the library does for each part of the product.
        synchronize: None where nothing may be timed.
    """
    seconds, sgemm = sum(one.seconds for one in choices), sum(one.sgemm_seconds for one in choices)
    if not choices or any(one.is_fallback for one in choices):
        return vendor
    if synchronize is None or sgemm >= HOST_SECONDS and not seconds / CLEAR < sgemm < CLEAR * seconds:
        return own if seconds < sgemm else vendor
    return own if _first_is_faster(own, vendor, a, b, synchronize, min(seconds, sgemm)) else vendor


class _Front:
    """Products of one library's arrays, by its own `matmul`.

    Attributes:
        home: its namespace.
    """

    def __init__(self, home: ModuleType):
        self.home = home
        self.name = home.__name__.removesuffix("._namespace")

    def product(self, a: Any, b: Any) -> Any:
        """At FP32's accuracy."""
        check_shapes(a.shape, b.shape)
        if a.dtype != b.dtype:
            raise SpecError("matmul: a, b", "are of two types", got=f"{a.dtype} and {b.dtype}", needs="one type", remedy="convert one of them")
        note(self.name, f"{self.name} multiplies its arrays itself; gemmgen's kernels take those of CuPy, torch and JAX")
        return self.home.matmul(a, b)

    def in_fp64(self, a: Any, b: Any) -> Any:
        """Both as float64, or as complex128 where one is complex."""
        return self.space.matmul(*self.widened(a, b))

    def widened(self, a: Any, b: Any) -> list[Any]:
        """Both as arrays of that type."""
        check_shapes(a.shape, b.shape)
        wide = "complex128" if any("complex" in str(x.dtype) for x in (a, b)) else "float64"
        return [self.cast(x, getattr(self.space, wide)) for x in (a, b)]

    @property
    def space(self) -> Any:
        """The namespace of its functions."""
        return self.home

    def cast(self, x: Any, dtype: Any) -> Any:
        """An array as one of another type."""
        return x.astype(dtype) if hasattr(x, "astype") else self.home.astype(x, dtype)


class _Numpy(_Front):
    """NumPy's arrays, and lists. The GPU is used through CuPy."""

    def __init__(self, home: ModuleType):
        super().__init__(home)
        self._known: dict[Any, Product] = {}

    def product(self, a: Any, b: Any) -> Any:
        a, b = self._arrays(a, b)
        if a.dtype != self.home.float32 or b.dtype != self.home.float32:
            note_type(str(self.home.result_type(a, b)), self.name)
            return self.home.matmul(a, b)
        if type(a) is not self.home.ndarray or type(b) is not self.home.ndarray:  # a subclass says itself what its products are
            return self.home.matmul(a, b)
        if (product := self._known.get((a.shape, b.shape))) is None:
            product = _kept(self._known, (a.shape, b.shape), self._decided(a, b))
        return product(a, b)

    def in_fp64(self, a: Any, b: Any) -> Any:
        return super().in_fp64(*self._arrays(a, b))

    @staticmethod
    def _arrays(*given: Any) -> list[Any]:
        arrays = [as_numpy(x, name) for x, name in zip(given, "ab")]
        check_shapes(*(array.shape for array in arrays))
        return arrays

    def _decided(self, a: Any, b: Any) -> Product:
        from gemmgen.run.here import cuda_gpus

        own = self.home.matmul
        if not cuda_gpus():
            note_no_gpu(self.name)
            return own
        if prod(extents(a.shape, b.shape)) < WORTH_A_COPY or (carried := _carried()) is None:
            return own
        try:
            carried(a, b)  # which builds the library, and loads kernels
        except MemoryError:  # the GPU's
            return own
        times = [time.perf_counter()]
        for product in (carried, own):
            product(a, b)
            times.append(time.perf_counter())
        return carried if times[1] - times[0] < times[2] - times[1] else own


@cache
def _carried() -> Product | None:
    """A product of NumPy's arrays on the GPU; None without CuPy: a `Notice` says so once."""
    try:
        import cupy
    except ImportError:
        from gemmgen.drivers import install

        note("no cupy", f"NumPy multiplies, as there is no CuPy to reach the GPU with: {install()}")
        return None
    return lambda a, b: cupy.asnumpy(_front(cupy).product(cupy.asarray(a), cupy.asarray(b)))


class _Cupy(_Front):
    """CuPy's arrays."""

    def __init__(self, home: ModuleType):
        super().__init__(home)
        self._known: dict[Any, Product] = {}

    def product(self, a: Any, b: Any) -> Any:
        key = a.shape, a.strides, a.dtype, b.shape, b.strides, b.dtype, a.data.device_id, b.data.device_id  # `device` makes an object for each call
        if (product := self._known.get(key)) is None:
            product = _kept(self._known, key, self._decided(a, b))
        return product(a, b)

    def in_fp64(self, a: Any, b: Any) -> Any:
        return self.product(*self.widened(a, b))

    def _decided(self, a: Any, b: Any) -> Product:
        from gemmgen.run.here import cuda_gpus

        check_shapes(a.shape, b.shape)
        vendor, gpus = self.home.matmul, cuda_gpus()
        check_devices(a.device.id, b.device.id)
        if a.dtype == b.dtype and kind_of(a) in ELEMENTS and a.device.id < len(gpus):
            with a.device:
                return wide_product(a, b, vendor, partial(_package, gpus[a.device.id]), _chosen, self.home.cuda.get_current_stream().synchronize)
        if a.dtype != "float32" or b.dtype != "float32":
            note_type(str(self.home.result_type(a, b)), self.name)
            return vendor
        is_reduced = os.environ.get("CUPY_TF32", "0") not in ("", "0")  # CuPy's product is none of FP32's accuracy
        package = _package(gpus[a.device.id]) if a.device.id < len(gpus) and (is_reduced or not _are_light(a, b)) else None
        if package is None or not a.size or not b.size:
            return vendor
        m, n, k, products = extents(a.shape, b.shape)
        try:
            with a.device:
                choices = [package.select(m, n, k, batch=products)]
        except package.Error as error:
            note_refused(error, self.name)
            return vendor
        if is_reduced:
            return package.matmul
        return _chosen(choices, package.matmul, vendor, a, b, self.home.cuda.get_current_stream().synchronize)


def _are_light(a: Any, b: Any) -> bool:
    """Whether the library of two float32 arrays multiplies them, whatever another one could do."""
    return a.nbytes <= LIGHT and b.nbytes <= LIGHT


class _Torch(_Front):
    """torch's tensors, with gradients: what multiplies is decided once for all that it depends on; short ways look up both shapes, and check the rest."""

    def __init__(self, home: ModuleType):
        global _is_traced, _tensor, _parameter, _float32
        super().__init__(home)
        self._known: dict[Any, Product] = {}
        # Of a device and both shapes: products behind torch's own test of tensors that are as the first ones, and products by both strides.
        self._ways: dict[Any, tuple[list[tuple[Callable[..., bool], Product]], dict[Any, Product]]] = {}
        self._loaded: dict[int, ModuleType] = {}  # libraries by the number of their device
        self._watched = watched(home)
        self._plain = frozenset((home.Tensor, home.nn.Parameter))
        _is_traced, _tensor, _parameter, _float32 = home.compiler.is_dynamo_compiling, home.Tensor, home.nn.Parameter, home.float32

    def product(self, a: Any, b: Any) -> Any:
        if self.home.compiler.is_compiling() or self.home.jit.is_tracing():
            return self._traced(a, b)
        try:
            key = a.shape, b.shape, a.stride(), b.stride(), a.dtype, b.dtype, a.device, b.device, a.layout, b.layout
        except RuntimeError:  # nested tensors have no shape, some sparse ones no strides
            check_dense(a, b)
            return self.home.matmul(a, b)
        found = self._known.get(key)
        if found is None:
            if not (type(a) in self._plain and type(b) in self._plain) or self._watched():
                return self._traced(a, b)
            found = _kept(self._known, key, self._decided(a, b))
        return found(a, b)

    def in_fp64(self, a: Any, b: Any) -> Any:
        check_dense(a, b)
        return self.product(*self.widened(a, b)) if a.is_cuda else super().in_fp64(a, b)

    def cast(self, x: Any, dtype: Any) -> Any:
        return x.to(dtype)

    def _traced(self, a: Any, b: Any) -> Any:
        """By operators that torch sees: the library's where it is loaded, but for derivatives forward, which these do not have."""
        package = self._loaded.get(a.device.index or 0) if a.device.type == "cuda" and a.dtype == b.dtype == self.home.float32 else None
        return self.home.matmul(a, b) if package is None or self.home.autograd.forward_ad._current_level >= 0 else package.torch.matmul(a, b)

    def _here(self, index: int) -> Here:
        from gemmgen.run.here import Here, cuda_gpus

        torch = self.home
        if torch.version.hip:
            told = torch.cuda.get_device_properties(index)
            return Here(told.name, told.gcnArchName.partition(":")[0], told.multi_processor_count)
        return cuda_gpus()[index]

    def _operators(self, device: Any) -> ModuleType | None:
        """The library's module for torch, of a device; None where there is none."""
        if device.type != "cuda":
            note_no_gpu(self.name)
            return None
        package = _package(self._here(device.index))
        if package is None:
            return None
        operators = import_module(f"{package.__name__}.torch")
        self._loaded[device.index] = package
        return operators

    def _decided(self, a: Any, b: Any) -> Product:
        torch = self.home
        check_shapes(a.shape, b.shape)
        check_devices(a.device, b.device)
        if a.layout != torch.strided or b.layout != torch.strided:
            return torch.matmul
        check_dense(a, b)
        self._check_types(a, b)
        refuse_truth(a)
        _own_types.add(a.dtype)
        if kind_of(a) in ELEMENTS and a.is_cuda:
            timed = None if torch.cuda.is_current_stream_capturing() else torch.cuda.synchronize
            with torch.no_grad(), torch.cuda.device(a.device):
                fast = wide_product(a.detach(), b.detach(), torch.matmul, partial(_package, self._here(a.device.index)), _chosen, timed)
            return fast if fast is torch.matmul else self._guarded(fast, torch.matmul, torch.matmul, torch.matmul)
        if a.dtype != torch.float32:
            note_type(str(a.dtype).removeprefix("torch."), self.name)
            return torch.matmul
        multiply = torch.mm if a.dim() == b.dim() == 2 else torch.matmul
        vendor = self._vendor(a.device.type, multiply)
        light = _are_light(a, b)
        if light:
            self._lighten(a, multiply)
        operators = self._operators(a.device) if a.numel() and b.numel() and not light else None
        if operators is None:
            return self._by_shapes(a, b, multiply, vendor)
        if min(a.dim(), b.dim()) < 2:  # no kernel is made for vectors
            return vendor

        def in_lines(x: Any) -> Any:
            """Stored in rows or in columns."""
            return x if operators._in_lines(x.shape, x.stride()) else x.contiguous()

        laid = [in_lines(x.detach()) for x in (a, b)]
        try:
            prepared, choices = operators.prepared(*laid)
        except operators._c.Error as error:
            note_refused(error, self.name)
            return vendor
        run = prepared if laid[0].data_ptr() == a.data_ptr() and laid[1].data_ptr() == b.data_ptr() else lambda a, b: prepared(in_lines(a), in_lines(b))
        timed = torch.cuda.synchronize if a.is_cuda else lambda: None
        if a.is_cuda and torch.cuda.is_current_stream_capturing():
            timed = None
        saved = sum(one.sgemm_seconds - one.seconds for one in choices)
        own = self._guarded(run, operators.matmul, operators.matmul if saved > OPERATOR_SECONDS else vendor, vendor)
        with torch.no_grad():
            fast = _chosen(choices, own, vendor, a.detach(), b.detach(), timed)  # each with what it looks at in a later call
        if fast is vendor:
            brief = sum(one.sgemm_seconds for one in choices) < BRIEF_SECONDS
            return self._by_shapes(a, b, multiply, vendor) if brief else self._by_strides(a, b, vendor, vendor)
        return self._by_strides(a, b, run, own)

    @staticmethod
    def _check_types(a: Any, b: Any) -> None:
        if a.dtype != b.dtype:
            raise SpecError("matmul: a, b", "are of two types", got=f"{a.dtype} and {b.dtype}", needs="one type", remedy="b.to(a.dtype)")

    def _guarded(self, run: Product, operator: Product, graded: Product, forward: Product) -> Product:
        """`run`, where nothing but the numbers is asked for; else what torch sees, of a gradient what is faster, and what has derivatives forward."""
        torch, plain, watched, forward_ad = self.home, self._plain, self._watched, self.home.autograd.forward_ad
        gradients = torch.is_grad_enabled

        def product(a: Any, b: Any) -> Any:
            if (a.requires_grad or b.requires_grad) and gradients():
                return graded(a, b)
            if type(a) not in plain or type(b) not in plain or a.is_neg() or b.is_neg() or watched():
                return (operator if forward_ad._current_level < 0 else forward)(a, b)
            return run(a, b)

        return product

    def _lighten(self, a: Any, multiply: Product) -> None:
        """Open `matmul`'s way of light products to those like this one. Of a GPU and the CPU the GPU has it, once it was seen."""
        global _light, _on_gpu, _is_reduced, _autocasts, _multiply
        if not a.is_cuda:
            note_no_gpu(self.name)
        if a.device.type not in ("cuda", "cpu") or _light >= 0 and _on_gpu and not a.is_cuda:
            return
        # Programs of matrices alone call torch.mm, which refuses batches and vectors; torch.matmul takes all, and 0.1 us longer.
        product = multiply if _light < 0 or _on_gpu is not a.is_cuda or _multiply is multiply else self.home.matmul
        _light = -1  # meanwhile other threads look these up
        _on_gpu, _multiply, (_is_reduced, _autocasts) = a.is_cuda, product, settings(self.home, a.device.type)
        _light = LIGHT

    def _shorten(self, a: Any, b: Any, short: Product) -> None:
        """Put a short way of both shapes into its table. The first device has it; shapes that would overflow the table have none."""
        if len(_short) < MOST_KEPT:
            _short.setdefault((a.shape, b.shape, "fp32"), short)

    def _by_shapes(self, a: Any, b: Any, multiply: Product, in_fp32: Product) -> Product:
        """torch's product, and a short way for float32 tensors on a's device, however they lie. torch sees the operator, so this looks at settings alone."""
        index, float32 = a.get_device(), self.home.float32
        is_reduced, autocasts = settings(self.home, a.device.type)

        def short(a: Any, b: Any) -> Any:
            if a.dtype is float32 and a.get_device() == index:
                try:
                    return in_fp32(a, b) if is_reduced() or autocasts() else multiply(a, b)
                except (RuntimeError, TypeError):  # torch's, of operands or of settings: said below
                    pass
            return _by_types(a, b)

        self._shorten(a, b, short)
        return in_fp32

    def _by_strides(self, a: Any, b: Any, run: Product, product: Product) -> Product:
        """The product, and a short way for tensors that lie as these. `run` looks at nothing, so this looks at all that it and torch depend on."""
        torch, plain, watched, index = self.home, self._plain, self._watched, a.get_device()
        float32, strided, gradients, forward_ad = torch.float32, torch.strided, torch.is_grad_enabled, torch.autograd.forward_ad
        tested, ways = self._ways.get((index, a.shape, b.shape)) or _kept(self._ways, (index, a.shape, b.shape), ([], {}))
        _kept(ways, (a.stride(), b.stride()), run)
        if len(tested) < MOST_TESTED and (is_alike := alike(torch, a, b)) is not None:
            tested.append((is_alike, run))

        def short(a: Any, b: Any) -> Any:
            if forward_ad._current_level < 0:
                for is_alike, run in tested:
                    if is_alike(a, b):
                        return run(a, b)
            if (type(a) in plain and type(b) in plain and a.dtype is float32 and b.dtype is float32 and a.get_device() == index and b.get_device() == index
                    and a.layout is strided and b.layout is strided and not ((a.requires_grad or b.requires_grad) and gradients())
                    and not a.is_neg() and not b.is_neg() and not watched()):
                run = ways.get((a.stride(), b.stride()))
                if run is not None:
                    return run(a, b)
            return _by_types(a, b)

        self._shorten(a, b, short)
        return product

    def _vendor(self, kind: str, multiply: Product) -> Product:
        """torch's product without TF32 and without autocast, whatever the program allows other products."""
        torch = self.home
        is_reduced, autocasts = settings(self.home, kind)

        def product(a: Any, b: Any) -> Any:
            try:
                is_plain = not is_reduced() and not autocasts()
            except RuntimeError:
                is_plain = False
            if is_plain:
                return multiply(a, b)
            with fp32_of(torch, kind), torch.autocast(kind, enabled=False):
                return multiply(a, b)

        return product


class _Jax(_Front):
    """JAX's arrays, under jit, grad and vmap, too: the way is chosen while a product is traced, by predictions."""

    def __init__(self, home: ModuleType):
        super().__init__(home)
        self.product = home.jit(self._traced)

    def in_fp64(self, a: Any, b: Any) -> Any:
        check_shapes(a.shape, b.shape)
        if not self.home.config.jax_enable_x64:
            raise SpecError("matmul: accuracy", "asks JAX for float64, which it has not enabled", got="fp64", needs="jax_enable_x64",
                            remedy='jax.config.update("jax_enable_x64", True)')
        return super().in_fp64(a, b)

    @property
    def space(self) -> Any:
        return self.home.numpy

    def _traced(self, a: Any, b: Any) -> Any:
        """Run once for each pair of shapes and types: a later call is JAX's alone."""
        check_shapes(a.shape, b.shape)
        vendor = partial(self.home.numpy.matmul, precision="highest")
        if a.dtype != "float32" or b.dtype != "float32":
            note_type(str(self.home.numpy.result_type(a, b)), self.name)
            return vendor(a, b)
        package = None if _are_light(a, b) else self._package()
        if package is None or not self._is_faster(package, a.shape, b.shape):
            return vendor(a, b)
        own = import_module(f"{package.__name__}.jax").matmul
        return self.home.lax.platform_dependent(a, b, default=vendor, **{package._c.XLA_PLATFORM.lower(): own})

    def _package(self) -> ModuleType | None:
        from gemmgen.run.here import cuda_gpus

        if self.home.default_backend() != "gpu" or not cuda_gpus():
            note_no_gpu(self.name)
            return None
        return _package(cuda_gpus()[0])

    @staticmethod
    def _is_faster(package: ModuleType, a: Sequence[int], b: Sequence[int]) -> bool:
        """Whether the library predicts it."""
        if min(len(a), len(b)) < 2 or not prod(a) or not prod(b):
            return False
        m, n, k, products = extents(a, b)
        try:
            choice = package.select(m, n, k, batch=products)
        except package.Error as error:
            note_refused(error, "jax")
            return False
        return not choice.is_fallback and choice.seconds < choice.sgemm_seconds
