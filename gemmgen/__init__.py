"""gemmgen: from a declarative spec to a verified, FP32-accurate GEMM kernel.

    from gemmgen import road

    kernel = road.build("specs/kernels/sgemm_a100.toml")
    print(kernel.plan.hash, kernel.source.name, kernel.binary.arch)
    report = road.verify(kernel, size=(64, 48, 96))
    print(report.passed)
    road.export(kernel, "third_party/sgemm")

Each stop of the road is a frozen value: spec, plan, source, binary, report. Importing this package is cheap: heavy
libraries are imported where they are used.
"""

__version__ = "0.1.0"
