-- name: outcomes_add
INSERT INTO outcome (
    run_id, fence, status, disposition, kind, reason, at, proof, wake_at, said, usage, exit, changes, leftovers
) VALUES (
    :run_id, :fence, :status, :disposition, :kind, :reason, :at, :proof, :wake_at,
    :said, :usage, :exit, :changes, :leftovers
);

-- name: outcomes_authorise
INSERT INTO authorisation (id, task_id, kind, by, says, at, profile, fingerprint, directory, place)
VALUES (:id, :task_id, :kind, :by, :says, :at, :profile, :fingerprint, :directory, :place);

-- name: outcomes_record_launch
INSERT INTO launch (run_id, authorisation_id, at) VALUES (:run_id, :authorisation_id, :at);
