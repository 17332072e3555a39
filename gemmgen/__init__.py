"""gemmgen: from a declarative spec to a verified, FP32-accurate GEMM kernel.

    from gemmgen.spec import load
    from gemmgen.solve import solve
    from gemmgen.render import render
    from gemmgen.build import build
    from gemmgen.verify import verify

    spec = load("specs/kernels/sgemm_a100.toml")
    plan = solve(spec)
    source = render(plan)
    binary = build(source)
    report = verify(plan, source, binary)

Each stop of the road is a frozen value. Importing this package is cheap: heavy
libraries are imported where they are used.
"""

__version__ = "0.1.0"
