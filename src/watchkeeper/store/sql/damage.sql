-- name: damage_all
SELECT place, id, task_id, reason, at FROM damage ORDER BY at, place, id;

-- name: damage_of_task
SELECT place, id, task_id, reason, at FROM damage WHERE task_id = :task_id ORDER BY at, place, id;

-- name: damage_keep
INSERT INTO damage (place, id, task_id, reason, at) VALUES (:place, :id, :task_id, :reason, :at)
ON CONFLICT (place, id) DO UPDATE SET reason = excluded.reason, task_id = coalesce(excluded.task_id, damage.task_id)
WHERE damage.reason <> excluded.reason;

-- name: damage_drop
DELETE FROM damage WHERE place = :place AND id = :id;

-- name: damage_tasks
SELECT seq, id FROM task WHERE seq > :after ORDER BY seq LIMIT :limit;

-- name: damage_runs
SELECT fence, id, task_id, state FROM run WHERE fence > :after ORDER BY fence LIMIT :limit;

-- name: damage_claims
SELECT claim.task_id, claim.run_id FROM claim
LEFT JOIN run ON run.id = claim.run_id AND run.fence = claim.fence AND run.state <> 'settled'
LEFT JOIN task ON task.id = claim.task_id AND task.run_id = claim.run_id
WHERE run.id IS NULL OR task.id IS NULL;

-- name: damage_whole_claims
SELECT task_id, run_id, fence, machine, lane, checkout FROM claim;

-- name: damage_authorisations
SELECT seq, id, task_id, kind, by, detail, at, profile, fingerprint, directory, place FROM authorisation
WHERE seq > :after ORDER BY seq LIMIT :limit;

-- name: damage_authorisation
SELECT id, task_id, kind, by, detail, at, profile, fingerprint, directory, place FROM authorisation WHERE id = :id;

-- name: damage_outbox
SELECT id, kind, payload, attempts, not_before FROM outbox WHERE id > :after ORDER BY id LIMIT :limit;

-- name: damage_states
SELECT account, machine, sign_in, sign_in_at, detail, mark, quota_until, quota_at, trouble, trouble_detail, trouble_since,
    trouble_at, probes, probe_at, probe_run, answered_at
FROM account_state;

-- name: damage_harnesses
SELECT harness, machine, present, detail, at FROM harness_state;

-- name: damage_lanes
SELECT id, machine, harness, account, project FROM lane;

-- name: damage_lanes_closed
SELECT lane, reason FROM lane_closed;

-- name: damage_outbox_one
SELECT id, kind, payload, attempts, not_before FROM outbox WHERE id = :id;

-- name: damage_journal_one
SELECT seq, at, kind, task_id, run_id, fence, data FROM journal WHERE seq = :seq;

-- name: damage_has_task
SELECT id FROM task WHERE id = :id;

-- name: damage_counts
SELECT state, count(*) FROM task GROUP BY state;

-- name: damage_meta
SELECT database_id, fence FROM meta WHERE id = 1;

-- name: damage_largest_fence
SELECT max(fence) FROM (
    SELECT 0 AS fence
    UNION ALL SELECT max(fence) FROM run
    UNION ALL SELECT max(fence) FROM claim
) AS given;

-- name: damage_incarnations
SELECT id, incarnation FROM machine;

-- name: damage_number_of_task
SELECT seq FROM task WHERE id = :id;

-- name: damage_waits
SELECT task.seq, task.id, task.priority, task.checkout, lane.machine, lane.harness, lane.account, lane.project, spec.body,
    task.unmet, (
        SELECT count(*) FROM dependency JOIN task AS other ON other.id = dependency.on_id
        WHERE dependency.task_id = task.id AND other.state <> 'done'
    ),
    CASE WHEN task.blocked = 1 AND NOT EXISTS (SELECT 1 FROM claim WHERE claim.checkout = task.checkout) AND NOT EXISTS (
        SELECT 1 FROM task AS other
        WHERE other.checkout = task.checkout AND other.lane = task.lane AND other.blocked = 0 AND other.state = 'queued'
            AND other.stop_at IS NULL AND other.ready = 1 AND other.unmet = 0
    ) THEN 1 ELSE 0 END,
    CASE WHEN EXISTS (
        SELECT 1 FROM claim JOIN run ON run.id = claim.run_id JOIN execution ON execution.id = run.execution_id
        WHERE claim.task_id = task.id AND (claim.lane <> task.lane OR claim.machine <> execution.machine)
    ) THEN 1 ELSE 0 END
FROM task LEFT JOIN spec ON spec.task_id = task.id LEFT JOIN lane ON lane.id = task.lane
WHERE task.seq > :after ORDER BY task.seq LIMIT :limit;
