-- The indexes are named, because SQLite would rather take the one on (state, seq) and sort. Where one is missing the statement fails.

-- name: queue_wake
UPDATE task SET ready = 1
WHERE seq IN (
    SELECT seq FROM task INDEXED BY task_waiting
    WHERE state = 'queued' AND stop_at IS NULL AND ready = 0 AND wake_at <= :now
    ORDER BY wake_at LIMIT :limit
);

-- name: queue_next_wake
SELECT wake_at FROM task INDEXED BY task_waiting
WHERE state = 'queued' AND stop_at IS NULL AND ready = 0 ORDER BY wake_at LIMIT 1;

-- name: queue_lanes
WITH RECURSIVE seen (lane) AS (
    SELECT min(lane) FROM task INDEXED BY task_ready
    WHERE state = 'queued' AND stop_at IS NULL AND ready = 1 AND unmet = 0 AND blocked = 0
    UNION ALL
    SELECT (
        SELECT min(lane) FROM task INDEXED BY task_ready
        WHERE state = 'queued' AND stop_at IS NULL AND ready = 1 AND unmet = 0 AND blocked = 0 AND lane > seen.lane
    )
    FROM seen WHERE seen.lane IS NOT NULL
)
SELECT lane.id, lane.machine, lane.harness, lane.account, lane.project
FROM seen CROSS JOIN lane ON lane.id = seen.lane WHERE seen.lane IS NOT NULL;

-- name: queue_occupied
SELECT lane.id, lane.machine, lane.harness, lane.account, lane.project, claim.machine, count(*)
FROM claim CROSS JOIN run ON run.id = claim.run_id CROSS JOIN lane ON lane.id = claim.lane
WHERE run.state <> 'held'
GROUP BY lane.id, lane.machine, lane.harness, lane.account, lane.project, claim.machine;

-- name: queue_first
SELECT task.id, task.checkout, task.priority, task.seq
FROM json_each(:lanes) AS open CROSS JOIN task ON task.seq = (
    SELECT seq FROM task INDEXED BY task_ready
    WHERE lane = open.value AND state = 'queued' AND stop_at IS NULL AND ready = 1 AND unmet = 0 AND blocked = 0
        AND NOT EXISTS (SELECT 1 FROM damage WHERE damage.task_id = task.id)
    ORDER BY priority DESC, seq LIMIT 1
)
ORDER BY task.priority DESC, task.seq LIMIT 1;

-- name: queue_first_untried
SELECT task.id, task.checkout, task.priority, task.seq
FROM json_each(:lanes) AS open CROSS JOIN task ON task.seq = (
    SELECT seq FROM task INDEXED BY task_ready
    WHERE lane = open.value AND state = 'queued' AND stop_at IS NULL AND ready = 1 AND unmet = 0 AND blocked = 0
        AND (kind IS NULL OR kind NOT IN ('overloaded', 'network', 'quota'))
        AND NOT EXISTS (SELECT 1 FROM damage WHERE damage.task_id = task.id)
    ORDER BY priority DESC, seq LIMIT 1
)
ORDER BY task.priority DESC, task.seq LIMIT 1;

-- name: queue_first_tried
SELECT task.id, task.checkout, task.priority, task.seq
FROM json_each(:lanes) AS open CROSS JOIN task ON task.seq = (
    SELECT seq FROM task INDEXED BY task_ready
    WHERE lane = open.value AND state = 'queued' AND stop_at IS NULL AND ready = 1 AND unmet = 0 AND blocked = 0
        AND kind IN ('overloaded', 'network', 'quota')
        AND NOT EXISTS (SELECT 1 FROM damage WHERE damage.task_id = task.id)
    ORDER BY updated_at, seq LIMIT 1
)
ORDER BY task.updated_at, task.seq LIMIT 1;

-- name: queue_unblock
WITH RECURSIVE seen (lane) AS (
    SELECT min(lane) FROM task INDEXED BY task_checkout
    WHERE checkout = :checkout AND blocked = 1 AND state = 'queued' AND stop_at IS NULL AND ready = 1 AND unmet = 0
    UNION ALL
    SELECT (
        SELECT min(lane) FROM task INDEXED BY task_checkout
        WHERE checkout = :checkout AND blocked = 1 AND state = 'queued' AND stop_at IS NULL AND ready = 1 AND unmet = 0
            AND lane > seen.lane
    )
    FROM seen WHERE seen.lane IS NOT NULL
)
UPDATE task SET blocked = 0
WHERE seq IN (
    SELECT (
        SELECT seq FROM task INDEXED BY task_checkout
        WHERE checkout = :checkout AND blocked = 1 AND lane = seen.lane AND state = 'queued' AND stop_at IS NULL
            AND ready = 1 AND unmet = 0
        ORDER BY priority DESC, seq LIMIT 1
    )
    FROM seen WHERE seen.lane IS NOT NULL
);

-- name: queue_blocked_for_others
SELECT DISTINCT claim.checkout, lane.id, lane.machine, lane.harness, lane.account, lane.project
FROM claim CROSS JOIN lane
WHERE claim.checkout IS NOT NULL AND claim.machine <> :machine AND lane.machine = ''
    AND NOT EXISTS (SELECT 1 FROM claim AS here WHERE here.machine = :machine AND here.checkout = claim.checkout)
    AND EXISTS (
        SELECT 1 FROM task INDEXED BY task_checkout
        WHERE checkout = claim.checkout AND blocked = 1 AND lane = lane.id AND state = 'queued' AND stop_at IS NULL
            AND ready = 1 AND unmet = 0
    )
ORDER BY lane.id, claim.checkout;

-- name: queue_unblock_lane
UPDATE task SET blocked = 0
WHERE seq = (
    SELECT seq FROM task INDEXED BY task_checkout
    WHERE checkout = :checkout AND blocked = 1 AND lane = :lane AND state = 'queued' AND stop_at IS NULL
        AND ready = 1 AND unmet = 0
    ORDER BY priority DESC, seq LIMIT 1
);
