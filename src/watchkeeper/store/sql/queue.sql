-- name: queue_lane
INSERT INTO lane (machine, harness, account, project) VALUES (:machine, :harness, :account, :project)
ON CONFLICT (machine, harness, account, project) DO NOTHING;

-- name: queue_lane_id
SELECT id FROM lane WHERE machine = :machine AND harness = :harness AND account = :account AND project = :project;

-- name: queue_waiting
SELECT id FROM task WHERE state = 'queued' AND stop_at IS NULL ORDER BY priority DESC, seq LIMIT :limit;

-- name: queue_holder
SELECT task_id FROM claim WHERE machine = :machine AND checkout = :checkout;

-- name: queue_operation
SELECT task_id, run_id, fence FROM operation WHERE id = :id;

-- Neither `blocked < 1` nor `state || ''` fits an index, so that the task is found by its id.

-- name: queue_block
UPDATE task SET blocked = 1
WHERE id = :id AND blocked < 1 AND state || '' = 'queued' AND stop_at IS NULL AND ready = 1 AND unmet < 1;

-- name: queue_record_operation
INSERT INTO operation (id, task_id, run_id, fence, cancelled, at)
VALUES (:id, :task_id, :run_id, :fence, 0, :at) ON CONFLICT DO NOTHING;
