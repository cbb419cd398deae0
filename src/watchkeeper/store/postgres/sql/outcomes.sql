-- name: outcomes_add
INSERT INTO outcome (
    run_id, fence, status, disposition, kind, reason, at, proof, wake_at, said, usage, exit, changes, leftovers
) VALUES (
    :run_id, :fence, :status, :disposition, :kind, :reason, :at, :proof, :wake_at,
    :said, :usage, :exit, :changes, :leftovers
) ON CONFLICT DO NOTHING;

-- name: outcomes_get
SELECT run_id, fence, status, disposition, kind, reason, at, proof, wake_at, said, usage, exit, changes, leftovers
FROM outcome WHERE run_id = :run_id;

-- name: outcomes_authorise
INSERT INTO authorisation (id, task_id, kind, by, says, at) VALUES (:id, :task_id, :kind, :by, :says, :at)
ON CONFLICT DO NOTHING;

-- name: outcomes_authorisation
SELECT id, task_id, kind, by, says, at FROM authorisation WHERE task_id = :task_id ORDER BY seq DESC LIMIT 1;

-- name: outcomes_record_launch
INSERT INTO launch (run_id, authorisation_id, at) VALUES (:run_id, :authorisation_id, :at)
ON CONFLICT DO NOTHING;
