-- The time model against measurement, by GPU and scheme: measured time over predicted.
-- spread is the geometric standard deviation, 1 where the model is off by one factor for all; worst is the ratio farthest from 1, and of_kernel whose it is.
WITH ratios AS (
    SELECT gpu, scheme, seconds / predicted_seconds AS ratio, kernel, m, n, k
    FROM latest
    WHERE verdict = 'timed' AND kind = 'kernel' AND seconds > 0 AND predicted_seconds > 0
)
SELECT gpu, scheme, count(*) AS kernels, exp(avg(ln(ratio))) AS geometric_mean, coalesce(exp(stddev_samp(ln(ratio))), 1) AS spread,
       quantile_cont(ratio, 0.05) AS of_5_percent, quantile_cont(ratio, 0.95) AS of_95_percent,
       arg_max(ratio, abs(ln(ratio))) AS worst, arg_max(kernel || ' ' || m || 'x' || n || 'x' || k, abs(ln(ratio))) AS of_kernel
FROM ratios
GROUP BY gpu, scheme
ORDER BY gpu, scheme
