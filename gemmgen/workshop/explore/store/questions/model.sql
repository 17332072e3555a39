-- The model against measurement, by GPU and scheme: measured time over predicted, and what compiling and judging alone can tell.
-- spread is the geometric standard deviation, 1 where the model is off by one factor for all; worst is the ratio farthest from 1, and of_kernel whose it is.
-- compiled counts kernels whose registers the compiler told; registers_off is their mean distance from the predicted number; error_ratio is the geometric mean
-- of the measured error over the predicted one, on a GPU or the emulator.
-- Empty: only predictions are stored; gemmgen study run STUDY with a compiler compares registers, with emulate = true errors, and on that GPU times.
WITH held AS (
    SELECT gpu, scheme, kernel, m, n, k, CASE WHEN verdict = 'timed' AND seconds > 0 AND predicted_seconds > 0 THEN seconds / predicted_seconds END AS ratio,
           CASE WHEN error > 0 AND error < 'Infinity'::DOUBLE AND predicted_error > 0 THEN error / predicted_error END AS error_ratio,
           abs(registers - predicted_registers) AS registers_off
    FROM latest
    WHERE verdict IN ('compiled', 'right', 'timed') AND kind = 'kernel'
)
SELECT gpu, scheme, count(ratio) AS kernels, exp(avg(ln(ratio))) AS geometric_mean,
       CASE WHEN count(ratio) > 0 THEN coalesce(exp(stddev_samp(ln(ratio))), 1) END AS spread,
       quantile_cont(ratio, 0.05) AS of_5_percent, quantile_cont(ratio, 0.95) AS of_95_percent,
       arg_max(ratio, abs(ln(ratio))) AS worst, arg_max(kernel || ' ' || m || 'x' || n || 'x' || k, abs(ln(ratio))) AS of_kernel,
       count(registers_off) AS compiled, avg(registers_off) AS registers_off, exp(avg(ln(error_ratio))) AS error_ratio
FROM held
GROUP BY gpu, scheme
HAVING count(ratio) + count(registers_off) + count(error_ratio) > 0
ORDER BY gpu, scheme
