-- name: waits_dependencies
SELECT dependency.on_id, task.state FROM dependency JOIN task ON task.id = dependency.on_id
WHERE dependency.task_id = :task_id ORDER BY task.seq;

-- name: waits_dependents
SELECT dependency.task_id FROM dependency JOIN task ON task.id = dependency.task_id
WHERE dependency.on_id = :on_id ORDER BY task.seq;

-- name: waits_wrong_unmet
SELECT task.id, task.unmet, (
    SELECT count(*) FROM dependency JOIN task AS other ON other.id = dependency.on_id
    WHERE dependency.task_id = task.id AND other.state <> 'done'
) AS really
FROM task WHERE task.unmet <> (
    SELECT count(*) FROM dependency JOIN task AS other ON other.id = dependency.on_id
    WHERE dependency.task_id = task.id AND other.state <> 'done'
)
LIMIT :limit;

-- name: waits_wrong_blocked
SELECT task.id, task.checkout FROM task
WHERE task.blocked = 1
    AND NOT EXISTS (SELECT 1 FROM claim WHERE claim.checkout = task.checkout)
    AND NOT EXISTS (
        SELECT 1 FROM task AS other
        WHERE other.checkout = task.checkout AND other.lane = task.lane AND other.blocked = 0 AND other.state = 'queued'
            AND other.stop_at IS NULL AND other.ready = 1 AND other.unmet = 0
    )
LIMIT :limit;

-- name: waits_wrong_claim
SELECT claim.task_id FROM claim JOIN task ON task.id = claim.task_id JOIN run ON run.id = claim.run_id
JOIN execution ON execution.id = run.execution_id
WHERE claim.lane <> task.lane OR claim.machine <> execution.machine
LIMIT :limit;

-- name: waits_wrong_probe
SELECT account_state.account, account_state.probe_run
FROM account_state JOIN claim ON claim.run_id = account_state.probe_run LEFT JOIN lane ON lane.id = claim.lane
WHERE claim.machine <> account_state.machine OR lane.account IS NULL OR lane.account <> account_state.account
LIMIT :limit;

-- name: waits_bodies
SELECT task.seq, task.id, task.priority, task.checkout, lane.machine, lane.harness, lane.account, lane.project, spec.body
FROM task JOIN spec ON spec.task_id = task.id LEFT JOIN lane ON lane.id = task.lane
WHERE task.seq > :after ORDER BY task.seq LIMIT :limit;

-- name: waits_lane
SELECT lane.id, lane.machine, lane.harness, lane.account, lane.project
FROM task JOIN lane ON lane.id = task.lane WHERE task.id = :task_id;

-- name: waits_holders
SELECT claim.machine, claim.task_id, run.state FROM claim JOIN run ON run.id = claim.run_id
WHERE claim.checkout = :checkout ORDER BY claim.machine;

-- name: waits_facts
SELECT ready, unmet, blocked, checkout, lane, priority FROM task WHERE id = :task_id;

-- name: waits_is_wanted
SELECT 1 FROM claim WHERE checkout = :checkout
UNION ALL
SELECT 1 FROM task
WHERE checkout = :checkout AND state = 'queued' AND stop_at IS NULL AND ready = 1 AND unmet = 0
LIMIT 1;
