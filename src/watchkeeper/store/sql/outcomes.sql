-- name: outcomes_get
SELECT run_id, fence, status, disposition, kind, reason, at, proof, wake_at, said, usage, exit, changes, leftovers
FROM outcome WHERE run_id = :run_id;

-- name: outcomes_authorisation
SELECT id, task_id, kind, by, says, at FROM authorisation WHERE task_id = :task_id ORDER BY seq DESC LIMIT 1;
