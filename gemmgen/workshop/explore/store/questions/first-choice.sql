-- What the model's first choice costs: of each GPU, layout and size the time of the kernel that it predicts to be fastest, over that of the fastest.
-- Where nothing was timed, times is predicted: the first choice may be a kernel that the compiler refused or that is wrong, and the fastest is one that is not.
-- Empty: no kernel has a predicted time; gemmgen study run STUDY predicts one for each trial.
WITH predicted AS (
    SELECT gpu, layout, m, n, k, kernel, verdict IN ('modelled', 'compiled', 'right') AS good, predicted_seconds,
           CASE WHEN verdict = 'timed' AND seconds > 0 THEN seconds END AS measured
    FROM latest
    WHERE kind = 'kernel' AND predicted_seconds > 0
),
chosen AS (
    SELECT gpu, layout, m, n, k, 'measured' AS times, count(*) AS kernels,
           arg_min(struct_pack(kernel, seconds := measured), predicted_seconds) AS first, arg_min(struct_pack(kernel, seconds := measured), measured) AS fastest
    FROM predicted
    WHERE measured IS NOT NULL
    GROUP BY gpu, layout, m, n, k
    UNION ALL
    SELECT gpu, layout, m, n, k, 'predicted' AS times, count(*) FILTER (good) AS kernels,
           min(struct_pack(seconds := predicted_seconds, kernel)) AS first,
           min(struct_pack(seconds := predicted_seconds, kernel)) FILTER (good) AS fastest
    FROM predicted
    GROUP BY gpu, layout, m, n, k
    HAVING count(measured) = 0 AND count(*) FILTER (good) > 0
)
SELECT gpu, layout, m, n, k, times, kernels, CASE times WHEN 'measured' THEN first.seconds / fastest.seconds ELSE fastest.seconds / first.seconds END
       AS times_the_fastest, 1e6 * first.seconds AS microseconds, first.kernel AS first_choice, fastest.kernel AS fastest
FROM chosen
ORDER BY gpu, layout, 1e0 * m * n * k, m, n, k
