-- The fastest kernel of each GPU, layout and size, of those judged right; by predicted times where nothing was timed.
-- times says which: kernels with a measured time and kernels with only a predicted one do not compete, and have a row each.
-- rival is the fastest rival there whose error is at most twice the kernel's; times_as_fast is its time over the kernel's.
-- Empty: no kernel compiled, none was modelled; gemmgen study ask STORE --verdicts says why.
WITH known AS MATERIALIZED (
    SELECT kind, gpu, layout, m, n, k, kernel, scheme, block, times, known_seconds AS seconds, known_error AS error
    FROM known_times
    WHERE kind IN ('kernel', 'rival')
),
fastest AS (
    SELECT gpu, layout, m, n, k, times, count(*) AS kernels, min(struct_pack(seconds, error, kernel, scheme, block)) AS best
    FROM known
    WHERE kind = 'kernel'
    GROUP BY gpu, layout, m, n, k, times
),
rivals AS (
    SELECT gpu, layout, m, n, k, times, kernel, seconds, error
    FROM known
    WHERE kind = 'rival'
),
rivalled AS (
    SELECT gpu, layout, m, n, k, times, arg_min(struct_pack(kernel, seconds), seconds) AS rival
    FROM fastest JOIN rivals USING (gpu, layout, m, n, k, times)
    WHERE rivals.error <= 2 * best.error
    GROUP BY gpu, layout, m, n, k, times
)
SELECT gpu, layout, m, n, k, times, best.kernel, best.scheme, best.block, 1e6 * best.seconds AS microseconds, 2e-12 * m * n * k / best.seconds AS tflops,
       best.error, kernels, rival.kernel AS rival, rival.seconds / best.seconds AS times_as_fast
FROM fastest LEFT JOIN rivalled USING (gpu, layout, m, n, k, times)
ORDER BY gpu, layout, 1e0 * m * n * k, m, n, k, times
