-- The fastest kernel of each GPU, layout and size, of those judged right.
-- rival is the fastest rival there whose error is at most twice the kernel's; times_as_fast is its time over the kernel's.
WITH timed AS MATERIALIZED (
    SELECT kind, gpu, layout, m, n, k, kernel, scheme, block, seconds, error
    FROM latest
    WHERE verdict = 'timed' AND kind IN ('kernel', 'rival') AND seconds > 0
),
fastest AS (
    SELECT gpu, layout, m, n, k, count(*) AS timed, arg_min(struct_pack(kernel, scheme, block, seconds, error), seconds) AS best
    FROM timed
    WHERE kind = 'kernel'
    GROUP BY gpu, layout, m, n, k
),
rivals AS (
    SELECT gpu, layout, m, n, k, kernel, seconds, error
    FROM timed
    WHERE kind = 'rival'
),
rivalled AS (
    SELECT gpu, layout, m, n, k, arg_min(struct_pack(kernel, seconds), seconds) AS rival
    FROM fastest JOIN rivals USING (gpu, layout, m, n, k)
    WHERE rivals.error <= 2 * best.error
    GROUP BY gpu, layout, m, n, k
)
SELECT gpu, layout, m, n, k, best.kernel, best.scheme, best.block, 1e6 * best.seconds AS microseconds, 2e-12 * m * n * k / best.seconds AS tflops,
       best.error, timed, rival.kernel AS rival, rival.seconds / best.seconds AS times_as_fast
FROM fastest LEFT JOIN rivalled USING (gpu, layout, m, n, k)
ORDER BY gpu, layout, 1e0 * m * n * k, m, n, k
