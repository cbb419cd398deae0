-- The indexes are named, because SQLite would rather take the one on (state, seq) and sort. Where one is missing the statement fails.

-- name: queue_flip
UPDATE task SET ready = 1
WHERE seq IN (
    SELECT seq FROM task INDEXED BY task_waiting
    WHERE state = 'queued' AND stop_at IS NULL AND ready = 0 AND wake_at <= :now
    ORDER BY wake_at LIMIT :limit
);

-- name: queue_first_ready
SELECT id, priority, seq FROM task INDEXED BY task_ready
WHERE state = 'queued' AND stop_at IS NULL AND ready = 1
ORDER BY priority DESC, seq LIMIT 1;

-- name: queue_first_due
SELECT id, priority, seq FROM task INDEXED BY task_waiting
WHERE state = 'queued' AND stop_at IS NULL AND ready = 0 AND wake_at <= :now
ORDER BY priority DESC, seq LIMIT 1;

-- name: queue_live_claims
SELECT count(*) FROM claim CROSS JOIN run ON run.id = claim.run_id WHERE run.state <> 'held';

-- name: queue_next_wake
SELECT wake_at FROM task INDEXED BY task_waiting
WHERE state = 'queued' AND stop_at IS NULL AND ready = 0 ORDER BY wake_at LIMIT 1;

-- name: queue_operation
SELECT cancelled, task_id, run_id, fence FROM operation WHERE id = :id;

-- name: queue_record_operation
INSERT INTO operation (id, task_id, run_id, fence, cancelled, at)
VALUES (:id, :task_id, :run_id, :fence, :cancelled, :at);

-- name: queue_cancel_operation
UPDATE operation SET cancelled = 1 WHERE id = :id;
