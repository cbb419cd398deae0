-- name: tasks_add
INSERT INTO task (
    id, state, version, priority, ready, wake_at, runs, attempts, unlaunched, run_id,
    stop_how, stop_by, stop_at, stop_grace_s, environment_id, reason, kind, created_at, updated_at, ended_at
) VALUES (
    :id, :state, :version, :priority, :ready, :wake_at, :runs, :attempts, :unlaunched, :run_id,
    :stop_how, :stop_by, :stop_at, :stop_grace_s, :environment_id, :reason, :kind, :created_at, :updated_at, :ended_at
);

-- name: tasks_add_spec
INSERT INTO spec (task_id, body) VALUES (:task_id, :body);

-- name: tasks_get
SELECT * FROM task_whole WHERE id = :id;

-- name: tasks_save
UPDATE task SET
    state = :state, version = version + 1, ready = :ready, wake_at = :wake_at, runs = :runs, attempts = :attempts,
    unlaunched = :unlaunched, run_id = :run_id, stop_how = :stop_how, stop_by = :stop_by, stop_at = :stop_at,
    stop_grace_s = :stop_grace_s, environment_id = :environment_id, reason = :reason, kind = :kind,
    updated_at = :updated_at, ended_at = :ended_at
WHERE id = :id AND version = :version;

-- name: tasks_ids_like
SELECT id FROM task WHERE id >= :first AND id < :beyond ORDER BY seq DESC LIMIT :limit;

-- name: tasks_seq
SELECT seq FROM task WHERE id = :id;

-- name: tasks_in_state
SELECT seq, id FROM task WHERE state = :state AND seq < :before ORDER BY seq DESC LIMIT :limit;

-- name: tasks_environment_in_use
SELECT 1 FROM task WHERE environment_id = :environment_id AND ended_at IS NULL LIMIT 1;

-- name: tasks_counts
SELECT state, tasks FROM tally;
