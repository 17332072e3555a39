-- Error against time: of each GPU, layout and size what nothing else there is both as fast and as accurate as; by predicted times where nothing was timed.
-- times says which: measured and predicted times do not compete, and have a frontier each. An error that nobody measured is the predicted one.
-- Empty: no kernel has both a time and an error; gemmgen study ask STORE --verdicts says why.
WITH against AS (
    SELECT *, min(known_error) OVER (
        PARTITION BY gpu, layout, m, n, k, times ORDER BY known_seconds, known_error, kernel ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
    ) AS least_of_the_faster
    FROM known_times
    WHERE known_error IS NOT NULL
)
SELECT gpu, layout, m, n, k, times, kind, kernel, scheme, block, 1e6 * known_seconds AS microseconds, 2e-12 * m * n * k / known_seconds AS tflops,
       known_error AS error
FROM against
WHERE least_of_the_faster IS NULL OR known_error < least_of_the_faster
ORDER BY gpu, layout, 1e0 * m * n * k, m, n, k, times, known_seconds
