"""gemmgen: from a declarative spec to a verified, FP32-accurate GEMM kernel.

    import gemmgen, numpy

    a = numpy.ones((256, 256), numpy.float32)
    c = gemmgen.matmul(a, a)                # arrays of NumPy, CuPy, torch, JAX; on a GPU by kernels that are built once

    from gemmgen import road

    kernel = road.build("sgemm_a100")       # the name of a shipped spec, or a file
    print(kernel.plan.hash, kernel.source.name, kernel.binary.arch)
    report = road.verify(kernel, size=(64, 48, 96))
    print(report.passed)
    road.export(kernel, "third_party/sgemm")

Each stop of the road is a frozen value: spec, plan, source, binary, report. `explain` and `verify` are the road's, `tune` finds the fastest kernel
of one product, or a precision for each product of a program. Importing this package is cheap: names are imported when they are first used.
"""

from importlib import import_module as _import_module

__version__ = "0.1.0"
__all__ = ["__version__", "errors", "explain", "matmul", "road", "tune", "verify"]

_HOMES = {"explain": "gemmgen.road", "matmul": "gemmgen.api", "tune": "gemmgen.workshop.tune"}
"""Functions by their modules; what stands in `__all__` and not here is a module, of which `verify` can be called."""


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(_import_module(_HOMES[name]), name) if name in _HOMES else _import_module(f"{__name__}.{name}")
    return found


def __dir__() -> list[str]:
    return __all__
