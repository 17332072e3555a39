-- What the model's first choice costs: of each GPU, layout and size the time of the kernel that it predicts to be fastest, over that of the fastest.
WITH timed AS (
    SELECT gpu, layout, m, n, k, kernel, seconds, predicted_seconds
    FROM latest
    WHERE verdict = 'timed' AND kind = 'kernel' AND seconds > 0 AND predicted_seconds > 0
),
chosen AS (
    SELECT gpu, layout, m, n, k, count(*) AS timed,
           arg_min(struct_pack(kernel, seconds), predicted_seconds) AS first, arg_min(struct_pack(kernel, seconds), seconds) AS fastest
    FROM timed
    GROUP BY gpu, layout, m, n, k
)
SELECT gpu, layout, m, n, k, timed, first.seconds / fastest.seconds AS times_the_fastest, 1e6 * first.seconds AS microseconds,
       first.kernel AS first_choice, fastest.kernel AS fastest
FROM chosen
ORDER BY gpu, layout, 1e0 * m * n * k, m, n, k
