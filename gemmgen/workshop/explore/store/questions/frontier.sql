-- Error against time: of each GPU, layout and size what nothing else there is both as fast and as accurate as.
WITH timed AS (
    SELECT gpu, layout, m, n, k, kind, kernel, scheme, block, seconds, error
    FROM latest
    WHERE verdict = 'timed' AND seconds > 0 AND error IS NOT NULL
),
against AS (
    SELECT *, min(error) OVER (
        PARTITION BY gpu, layout, m, n, k ORDER BY seconds, error, kernel ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
    ) AS least_of_the_faster
    FROM timed
)
SELECT gpu, layout, m, n, k, kind, kernel, scheme, block, 1e6 * seconds AS microseconds, 2e-12 * m * n * k / seconds AS tflops, error
FROM against
WHERE least_of_the_faster IS NULL OR error < least_of_the_faster
ORDER BY gpu, layout, 1e0 * m * n * k, m, n, k, seconds
