"""A product under jit, in JAX.

    python bench/programs/jax_products.py [judge]
"""

import json, time
import jax, numpy

jax.config.update("jax_default_matmul_precision", "highest")
a, b = (jax.random.normal(jax.random.PRNGKey(i), (4096, 4096), dtype="float32") for i in range(2))
product = jax.jit(lambda a, b: a @ b)
c = product(a, b).block_until_ready()
times = []
for repeat in range(10):
    start = time.perf_counter()
    product(a, b).block_until_ready()
    times.append(1e3 * (time.perf_counter() - start))
rows = slice(0, 512)
exact = numpy.asarray(a, dtype="float64")[rows] @ numpy.asarray(b, dtype="float64")
error = float(numpy.linalg.norm(numpy.asarray(c)[rows] - exact) / numpy.linalg.norm(exact))
print(json.dumps({"name": "jax: a @ b at 4096", "ms": sorted(times)[5], "error": error}), flush=True)
