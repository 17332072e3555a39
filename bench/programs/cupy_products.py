"""Products by the operator @ of all layouts, in CuPy.

    python bench/programs/cupy_products.py [judge]
"""

import json
import cupy

rng = cupy.random.default_rng(1)
m = n = k = 4096
times, worst = [], 0.0
for order_a in "CF":
    for order_b in "CF":
        a = cupy.array(rng.random((m, k), dtype=cupy.float32) - 0.5, order=order_a)
        b = cupy.array(rng.random((k, n), dtype=cupy.float32) - 0.5, order=order_b)
        for repeat in range(4):
            start, end = cupy.cuda.Event(), cupy.cuda.Event()
            start.record()
            c = a @ b
            end.record()
            end.synchronize()
            times.append(cupy.cuda.get_elapsed_time(start, end))
        exact = a.astype(cupy.float64) @ b.astype(cupy.float64)
        worst = max(worst, float(cupy.linalg.norm(c - exact) / cupy.linalg.norm(exact)))
print(json.dumps({"name": "cupy: a @ b at 4096", "ms": sorted(times)[len(times) // 2], "error": worst}), flush=True)
