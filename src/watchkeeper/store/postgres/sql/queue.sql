-- Where two indexes would do, the one that is meant is left as the only way, because a server that has not counted its rows yet may take the other one:
-- a subselect with OFFSET 0 is looked up row by row.

-- name: queue_wake
WITH due AS MATERIALIZED (
    SELECT seq FROM task
    WHERE state = 'queued' AND stop_at IS NULL AND ready = 0 AND wake_at <= :now
    ORDER BY wake_at, priority, seq LIMIT :limit
)
UPDATE task SET ready = 1 FROM due WHERE task.seq = due.seq;

-- name: queue_next_wake
SELECT wake_at FROM task
WHERE state = 'queued' AND stop_at IS NULL AND ready = 0 ORDER BY wake_at LIMIT 1;

-- name: queue_lanes
WITH RECURSIVE seen (lane) AS (
    (
        SELECT lane FROM task
        WHERE state = 'queued' AND stop_at IS NULL AND ready = 1 AND unmet = 0 AND blocked = 0 ORDER BY lane LIMIT 1
    )
    UNION ALL
    SELECT (
        SELECT lane FROM task
        WHERE state = 'queued' AND stop_at IS NULL AND ready = 1 AND unmet = 0 AND blocked = 0 AND lane > seen.lane
        ORDER BY lane LIMIT 1
    )
    FROM seen WHERE seen.lane IS NOT NULL
)
SELECT lane.id, lane.machine, lane.harness, lane.account, lane.project
FROM seen JOIN lane ON lane.id = seen.lane WHERE seen.lane IS NOT NULL
ORDER BY lane.id;

-- name: queue_occupied
SELECT lane.id, lane.machine, lane.harness, lane.account, lane.project, claim.machine, count(*)
FROM claim JOIN lane ON lane.id = claim.lane
CROSS JOIN LATERAL (SELECT state FROM run WHERE id = claim.run_id OFFSET 0) AS run
WHERE run.state <> 'held'
GROUP BY lane.id, lane.machine, lane.harness, lane.account, lane.project, claim.machine
ORDER BY lane.id, claim.machine;

-- name: queue_first
SELECT task.id, task.checkout, task.priority, task.seq
FROM jsonb_array_elements_text(CAST(:lanes AS JSONB)) AS wanted (lane) CROSS JOIN LATERAL (
    SELECT id, checkout, priority, seq FROM task
    WHERE lane = CAST(wanted.lane AS BIGINT) AND state = 'queued' AND stop_at IS NULL AND ready = 1 AND unmet = 0
        AND blocked = 0
        AND NOT EXISTS (SELECT 1 FROM damage WHERE damage.task_id = task.id)
    ORDER BY priority DESC, seq LIMIT 1
) AS task
ORDER BY task.priority DESC, task.seq LIMIT 1;

-- name: queue_first_untried
SELECT task.id, task.checkout, task.priority, task.seq
FROM jsonb_array_elements_text(CAST(:lanes AS JSONB)) AS wanted (lane) CROSS JOIN LATERAL (
    SELECT id, checkout, priority, seq FROM task
    WHERE lane = CAST(wanted.lane AS BIGINT) AND state = 'queued' AND stop_at IS NULL AND ready = 1 AND unmet = 0
        AND blocked = 0 AND (kind IS NULL OR kind NOT IN ('overloaded', 'network', 'quota'))
        AND NOT EXISTS (SELECT 1 FROM damage WHERE damage.task_id = task.id)
    ORDER BY priority DESC, seq LIMIT 1
) AS task
ORDER BY task.priority DESC, task.seq LIMIT 1;

-- name: queue_first_tried
SELECT task.id, task.checkout, task.priority, task.seq
FROM jsonb_array_elements_text(CAST(:lanes AS JSONB)) AS wanted (lane) CROSS JOIN LATERAL (
    SELECT id, checkout, priority, seq, updated_at FROM task
    WHERE lane = CAST(wanted.lane AS BIGINT) AND state = 'queued' AND stop_at IS NULL AND ready = 1 AND unmet = 0
        AND blocked = 0 AND kind IN ('overloaded', 'network', 'quota')
        AND NOT EXISTS (SELECT 1 FROM damage WHERE damage.task_id = task.id)
    ORDER BY updated_at, seq LIMIT 1
) AS task
ORDER BY task.updated_at, task.seq LIMIT 1;

-- name: queue_unblock
WITH RECURSIVE seen (lane) AS (
    (
        SELECT lane FROM task
        WHERE checkout = :checkout AND blocked = 1 AND state = 'queued' AND stop_at IS NULL AND ready = 1 AND unmet = 0
        ORDER BY lane LIMIT 1
    )
    UNION ALL
    SELECT (
        SELECT lane FROM task
        WHERE checkout = :checkout AND blocked = 1 AND state = 'queued' AND stop_at IS NULL AND ready = 1 AND unmet = 0
            AND lane > seen.lane
        ORDER BY lane LIMIT 1
    )
    FROM seen WHERE seen.lane IS NOT NULL
),
best AS MATERIALIZED (
    SELECT (
        SELECT seq FROM task
        WHERE checkout = :checkout AND blocked = 1 AND lane = seen.lane AND state = 'queued' AND stop_at IS NULL
            AND ready = 1 AND unmet = 0
        ORDER BY priority DESC, seq LIMIT 1
    ) AS seq
    FROM seen WHERE seen.lane IS NOT NULL
)
UPDATE task SET blocked = 0 FROM best WHERE task.seq = best.seq;

-- name: queue_blocked_for_others
WITH elsewhere AS MATERIALIZED (
    SELECT DISTINCT claim.checkout FROM claim
    WHERE claim.checkout IS NOT NULL AND claim.machine <> :machine
        AND NOT EXISTS (SELECT 1 FROM claim AS here WHERE here.machine = :machine AND here.checkout = claim.checkout)
)
SELECT elsewhere.checkout, open.id, open.machine, open.harness, open.account, open.project
FROM elsewhere CROSS JOIN LATERAL (
    SELECT lane.id, lane.machine, lane.harness, lane.account, lane.project FROM lane
    WHERE lane.machine = '' AND EXISTS (
        SELECT 1 FROM task
        WHERE task.checkout = elsewhere.checkout AND blocked = 1 AND task.lane = lane.id AND state = 'queued'
            AND stop_at IS NULL AND ready = 1 AND unmet = 0
        OFFSET 0
    )
    OFFSET 0
) AS open
ORDER BY open.id, elsewhere.checkout;

-- name: queue_unblock_lane
UPDATE task SET blocked = 0
WHERE seq = (
    SELECT seq FROM task
    WHERE checkout = :checkout AND blocked = 1 AND lane = :lane AND state = 'queued' AND stop_at IS NULL
        AND ready = 1 AND unmet = 0
    ORDER BY priority DESC, seq LIMIT 1
);
