-- What changed between two versions of the generator ($before, $after: versions, or beginnings of commits), by GPU, layout and size.
-- The same candidate is the same spec, or the same rival. A time counts as another where it differs by more than 3 % and more than either's spread;
-- ratio is the geometric mean of time after over time before. Where no candidate of a size was timed by both versions, times is predicted: the columns
-- compare what the two versions predict.
-- Empty: both versions have trials, but none of the same candidate; gemmgen study run STUDY with each version, into one store.
WITH both_versions AS (
    SELECT coalesce(generator = $after OR starts_with(commit, $after), false) AS is_after, gpu, layout, m, n, k, data,
           hash(CASE kind WHEN 'kernel' THEN spec ELSE kind || ' ' || kernel END) AS candidate,
           arg_max(struct_pack(verdict, seconds, spread, predicted_seconds), "at") AS ended
    FROM trials
    WHERE generator IN ($before, $after) OR starts_with(commit, $before) OR starts_with(commit, $after)
    GROUP BY ALL
),
joined AS (
    SELECT a.gpu, a.layout, a.m, a.n, a.k, b.ended AS b, a.ended AS a,
           bool_or(coalesce(a.ended.seconds * b.ended.seconds > 0, false)) OVER (PARTITION BY gpu, layout, m, n, k) AS measured
    FROM both_versions AS a JOIN both_versions AS b USING (gpu, layout, m, n, k, data, candidate)
    WHERE a.is_after AND NOT b.is_after
),
pairs AS (
    SELECT gpu, layout, m, n, k, CASE WHEN measured THEN 'measured' ELSE 'predicted' END AS times, b.verdict AS old, a.verdict AS new,
           CASE WHEN measured THEN b.seconds ELSE b.predicted_seconds END AS old_seconds,
           CASE WHEN measured THEN a.seconds ELSE a.predicted_seconds END AS new_seconds,
           new_seconds / old_seconds AS ratio, CASE WHEN measured THEN greatest(0.03, coalesce(a.spread, 0), coalesce(b.spread, 0)) ELSE 0.0 END AS noise
    FROM joined
)
SELECT gpu, layout, m, n, k, times, count(*) AS candidates,
       count(*) FILTER (ratio < 1 - noise) AS faster, count(*) FILTER (ratio > 1 + noise) AS slower, exp(avg(ln(ratio)) FILTER (ratio > 0)) AS ratio,
       1e6 * min(old_seconds) AS best_before, 1e6 * min(new_seconds) AS best_after,
       count(*) FILTER (new = 'refused' AND old <> 'refused') AS newly_refused,
       count(*) FILTER (new = 'wrong' AND old <> 'wrong') AS newly_wrong,
       count(*) FILTER (new IN ('hung', 'died', 'failed') AND old NOT IN ('hung', 'died', 'failed')) AS newly_failing,
       count(*) FILTER (new IN ('right', 'timed') AND old NOT IN ('right', 'timed')) AS newly_right
FROM pairs
GROUP BY gpu, layout, m, n, k, times
ORDER BY gpu, layout, 1e0 * m * n * k, m, n, k
