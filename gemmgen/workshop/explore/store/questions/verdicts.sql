-- How trials ended, by GPU: how many, and the five most frequent reasons of each verdict. Numbers in a reason are told as #.
-- Empty: the store has no trial; gemmgen study run STUDY makes some.
WITH reasons AS (
    SELECT gpu, verdict, reason, count(*) AS trials
    FROM trials
    GROUP BY gpu, verdict, reason
),
kinds AS (
    SELECT gpu, verdict, regexp_replace(reason, '[0-9]+([.][0-9]+)?', '#', 'g') AS reason, CAST(sum(trials) AS BIGINT) AS trials
    FROM reasons
    GROUP BY ALL
)
SELECT gpu, verdict, CAST(sum(trials) OVER ended AS BIGINT) AS trials, sum(trials) OVER ended / sum(trials) OVER (PARTITION BY gpu) AS share,
       trials AS of_this_reason, reason
FROM kinds
WINDOW ended AS (PARTITION BY gpu, verdict)
QUALIFY row_number() OVER (PARTITION BY gpu, verdict ORDER BY kinds.trials DESC, reason) <= 5
ORDER BY gpu, trials DESC, verdict, of_this_reason DESC, reason
