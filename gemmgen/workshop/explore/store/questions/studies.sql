-- What there is: of each study and GPU how many trials, how they ended, and when.
-- Empty: the store has no trial; gemmgen study run STUDY makes some.
SELECT study, gpu, count(*) AS trials, count(DISTINCT (m, n, k, layout)) AS problems,
       count(*) FILTER (verdict = 'timed') AS timed, count(*) FILTER (verdict IN ('right', 'compiled', 'modelled')) AS not_timed,
       count(*) FILTER (verdict = 'refused') AS refused, count(*) FILTER (verdict IN ('wrong', 'hung', 'died', 'failed')) AS not_right,
       min("at") AS since, max("at") AS until, string_agg(DISTINCT generator, ' ' ORDER BY generator) AS generators
FROM trials
GROUP BY study, gpu
ORDER BY study, gpu
