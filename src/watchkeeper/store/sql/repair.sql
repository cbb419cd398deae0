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
    state = 'failed', version = version + 1, ready = 1, wake_at = NULL, wake_for = NULL, run_id = NULL, blocked = 0,
    stop_how = NULL, stop_by = NULL, stop_at = NULL, stop_grace_s = NULL, environment_id = '', environment_machine = '',
    reason = :reason, kind = 'unknown', updated_at = :at, ended_at = :at, pinned_at = NULL, seen_at = NULL,
    created_at = CASE WHEN created_at BETWEEN 0 AND :at THEN created_at ELSE :at END
WHERE id = :task_id;

-- name: repair_runs
SELECT run.id, run.fence, run.state, run.execution_id, execution.exit FROM run
LEFT JOIN execution ON execution.id = run.execution_id WHERE run.task_id = :task_id;

-- name: repair_add_execution
INSERT INTO execution (id, session_id, machine, incarnation, proof)
SELECT :id, min(session.id), '', 0, 'unproven' FROM session
WHERE session.task_id = :task_id AND NOT EXISTS (SELECT 1 FROM execution WHERE execution.id = :id)
HAVING count(*) > 0
ON CONFLICT (id) DO NOTHING;

-- name: repair_execution
UPDATE execution SET
    exit = :exit, proof = 'unproven', shim_started_at = NULL, agent_pid = NULL, agent_start_ticks = NULL,
    agent_boot_id = NULL, agent_started_at = NULL
WHERE id = :id;

-- name: repair_run
UPDATE run SET
    state = 'settled', kind = 'unknown', reason = :reason, settled_at = :at, early_fail_kind = NULL,
    early_fail_reason = NULL, stop_told = NULL, harness_session = NULL, answered_at = NULL, stalled_since = NULL,
    stop_failed = NULL, cause = CASE WHEN cause IN ('initial', 'retry') THEN cause ELSE 'retry' END,
    claimed_at = CASE WHEN claimed_at BETWEEN 0 AND :at THEN claimed_at ELSE :at END
WHERE id = :id;

-- name: repair_drop_outcome
DELETE FROM outcome WHERE run_id = :run_id;

-- name: repair_drop_launches
DELETE FROM launch WHERE authorisation_id = :id;

-- name: repair_authorisations
SELECT id, task_id, kind, by, detail, at, profile, fingerprint, directory FROM authorisation WHERE task_id = :task_id;

-- name: repair_drop_authorisation
DELETE FROM authorisation WHERE id = :id;

-- name: repair_drop_claim
DELETE FROM claim WHERE task_id = :task_id RETURNING checkout;

-- name: repair_tally_states
DELETE FROM tally WHERE state NOT IN ('queued', 'running', 'needs_input', 'held', 'done', 'failed', 'stopped');

-- name: repair_tally
INSERT INTO tally (state, tasks)
SELECT known.column1, (SELECT count(*) FROM task WHERE task.state = known.column1)
FROM (VALUES ('queued'), ('running'), ('needs_input'), ('held'), ('done'), ('failed'), ('stopped')) AS known
WHERE known.column1 <> ''
ON CONFLICT (state) DO UPDATE SET tasks = excluded.tasks;

-- name: repair_meta
INSERT INTO meta (id, database_id, fence, forgotten) VALUES (1, :database_id, :fence, 0)
ON CONFLICT (id) DO UPDATE SET
    database_id = CASE WHEN meta.database_id <> '' THEN meta.database_id ELSE excluded.database_id END,
    fence = CASE WHEN meta.fence BETWEEN excluded.fence AND :most THEN meta.fence ELSE excluded.fence END,
    forgotten = CASE WHEN meta.forgotten >= 0 THEN meta.forgotten ELSE 0 END;

-- name: repair_dependency_on_itself
DELETE FROM dependency WHERE task_id = :id AND on_id = :id;

-- name: repair_empty_label
DELETE FROM label WHERE task_id = :id AND name = '';

-- name: repair_claim_place
UPDATE claim SET
    lane = (SELECT task.lane FROM task WHERE task.id = claim.task_id),
    machine = coalesce((
        SELECT execution.machine FROM run JOIN execution ON execution.id = run.execution_id WHERE run.id = claim.run_id
    ), claim.machine)
WHERE task_id = :id;

-- name: repair_drop_operation
DELETE FROM operation WHERE id = :key;

-- name: repair_lane_tasks
SELECT id FROM task WHERE lane = :key;

-- name: repair_claim_lanes
UPDATE claim SET lane = (SELECT task.lane FROM task WHERE task.id = claim.task_id) WHERE lane = :key;

-- name: repair_drop_lane
DELETE FROM lane WHERE id = :key;

-- name: repair_forget_damage
DELETE FROM damage WHERE task_id = :task_id;

-- name: repair_drop_notice_sinks
DELETE FROM notice_sink WHERE machine = :key;

-- name: repair_side_commands
SELECT run_id, task_id, body, kind, number FROM side_command WHERE task_id = :task_id ORDER BY run_id, kind, number;

-- name: repair_drop_side_command
DELETE FROM side_command WHERE run_id = :run_id AND kind = :kind AND number = :number;

-- name: repair_drop_message
DELETE FROM message WHERE task_id = :task_id AND number = :number;

-- name: repair_turns
SELECT run_id, task_id, body FROM turn WHERE task_id = :task_id;

-- name: repair_drop_turn
DELETE FROM turn WHERE run_id = :run_id;
