-- name: repair_drop_outbox
DELETE FROM outbox WHERE id = :key;

-- name: repair_drop_journal
DELETE FROM journal WHERE seq = :key;

-- name: repair_drop_account
DELETE FROM account WHERE harness || ':' || name = :key;

-- name: repair_drop_account_state
DELETE FROM account_state WHERE account || ' ' || machine = :key;

-- name: repair_drop_harness_state
DELETE FROM harness_state WHERE harness || ' ' || machine = :key;

-- name: repair_drop_lane_closed
DELETE FROM lane_closed WHERE lane = :key;

-- name: repair_drop_queue_rule
DELETE FROM queue_rule WHERE trim(scope || ' ' || name) = :key;

-- name: repair_drop_machine
DELETE FROM machine WHERE id = :key;

-- name: repair_spec
SELECT body FROM spec WHERE task_id = :task_id;

-- name: repair_put_spec
INSERT INTO spec (task_id, body) VALUES (:task_id, :body) ON CONFLICT (task_id) DO UPDATE SET body = excluded.body;

-- name: repair_task
UPDATE task SET
    state = 'failed', version = version + 1, ready = 1, wake_at = NULL, wake_for = NULL, run_id = NULL, parked = 0,
    stop_how = NULL, stop_by = NULL, stop_at = NULL, stop_grace_s = NULL, environment_id = '', environment_machine = '',
    reason = :reason, kind = 'unknown', updated_at = :at, ended_at = :at, pinned_at = NULL, seen_at = NULL,
    created_at = CASE WHEN created_at BETWEEN 0 AND :at THEN created_at ELSE :at END
WHERE id = :task_id;

-- name: repair_runs
SELECT run.id, run.fence, run.state, execution.id, execution.exit FROM run
LEFT JOIN execution ON execution.id = run.execution_id WHERE run.task_id = :task_id;

-- name: repair_execution
UPDATE execution SET
    exit = :exit, proof = 'unproven', shim_started_at = NULL, agent_pid = NULL, agent_start_ticks = NULL,
    agent_boot_id = NULL, agent_started_at = NULL
WHERE id = :id;

-- name: repair_run
UPDATE run SET
    state = 'settled', kind = 'unknown', reason = :reason, settled_at = :at, condemned_kind = NULL,
    condemned_reason = NULL, stop_told = NULL, harness_session = NULL, answered_at = NULL, stalled_since = NULL,
    stop_failed = NULL, cause = CASE WHEN cause IN ('initial', 'retry') THEN cause ELSE 'retry' END,
    claimed_at = CASE WHEN claimed_at BETWEEN 0 AND :at THEN claimed_at ELSE :at END
WHERE id = :id;

-- name: repair_drop_outcome
DELETE FROM outcome WHERE run_id = :run_id;

-- name: repair_drop_launches
DELETE FROM launch WHERE authorisation_id = :id;

-- name: repair_authorisations
SELECT id, task_id, kind, by, says, at, profile, fingerprint, directory FROM authorisation WHERE task_id = :task_id;

-- name: repair_drop_authorisation
DELETE FROM authorisation WHERE id = :id;

-- name: repair_drop_claim
DELETE FROM claim WHERE task_id = :task_id RETURNING checkout;

-- name: repair_tally
UPDATE tally SET tasks = (SELECT count(*) FROM task WHERE task.state = tally.state);

-- name: repair_lane_tasks
SELECT id FROM task WHERE lane = :key;

-- name: repair_claim_lanes
UPDATE claim SET lane = (SELECT task.lane FROM task WHERE task.id = claim.task_id) WHERE lane = :key;

-- name: repair_drop_lane
DELETE FROM lane WHERE id = :key;

-- name: repair_forget_damage
DELETE FROM damage WHERE task_id = :task_id;
