-- name: outcomes_get
SELECT run_id, fence, status, disposition, kind, reason, at, proof, wake_at, said, usage, exit, changes, leftovers
FROM outcome WHERE run_id = :run_id;

-- name: outcomes_authorisation
SELECT id, task_id, kind, by, detail, at, profile, fingerprint, directory, place
FROM authorisation WHERE task_id = :task_id ORDER BY seq DESC LIMIT 1;

-- name: outcomes_allowed_in
SELECT id, task_id, kind, by, detail, at, profile, fingerprint, directory, place
FROM authorisation WHERE directory = :directory AND profile IS NOT NULL ORDER BY seq DESC LIMIT 1;

-- name: outcomes_launch
SELECT authorisation.id, authorisation.task_id, kind, by, detail, authorisation.at, profile, fingerprint, directory, place, version
FROM launch JOIN authorisation ON authorisation.id = launch.authorisation_id WHERE run_id = :run_id;

-- name: outcomes_record_version
UPDATE launch SET version = :version WHERE run_id = :run_id;

-- name: outcomes_add
INSERT INTO outcome (
    run_id, fence, status, disposition, kind, reason, at, proof, wake_at, said, usage, exit, changes, leftovers
) VALUES (
    :run_id, :fence, :status, :disposition, :kind, :reason, :at, :proof, :wake_at,
    :said, :usage, :exit, :changes, :leftovers
) ON CONFLICT DO NOTHING;

-- name: outcomes_authorise
INSERT INTO authorisation (id, task_id, kind, by, detail, at, profile, fingerprint, directory, place)
VALUES (:id, :task_id, :kind, :by, :detail, :at, :profile, :fingerprint, :directory, :place)
ON CONFLICT DO NOTHING;

-- name: outcomes_record_launch
INSERT INTO launch (run_id, authorisation_id, at) VALUES (:run_id, :authorisation_id, :at)
ON CONFLICT DO NOTHING;
