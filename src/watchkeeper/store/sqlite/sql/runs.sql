-- name: runs_add_claim
INSERT INTO claim (task_id, run_id, fence, machine, lane, checkout)
SELECT id, :run_id, :fence, :machine, lane, checkout FROM task WHERE id = :task_id;

-- name: runs_add_session
INSERT INTO session (id, task_id, harness, harness_session, created_at)
SELECT :id, spec.task_id, json_extract(spec.body, '$.harness'), NULL, :created_at FROM spec WHERE spec.task_id = :task_id
ON CONFLICT (id) DO NOTHING;

-- name: runs_add_execution
INSERT INTO execution (
    id, session_id, machine, incarnation, device, inode, shim_started_at,
    agent_pid, agent_start_ticks, agent_boot_id, agent_started_at, exit, proof
) VALUES (
    :id, :session_id, :machine, :incarnation, :device, :inode, :shim_started_at,
    :agent_pid, :agent_start_ticks, :agent_boot_id, :agent_started_at, :exit, :proof
);

-- name: runs_add
INSERT INTO run (
    id, task_id, number, fence, execution_id, cause, state, claimed_at, condemned_kind, condemned_reason,
    stop_told, kind, reason, harness_session, settled_at, answered_at, stalled_since, stop_failed
) VALUES (
    :id, :task_id, :number, :fence, :execution_id, :cause, :state, :claimed_at, :condemned_kind, :condemned_reason,
    :stop_told, :kind, :reason, :harness_session, :settled_at, :answered_at, :stalled_since, :stop_failed
);

-- name: runs_live
SELECT run_whole.* FROM claim JOIN run_whole ON run_whole.id = claim.run_id ORDER BY claim.fence;

-- name: runs_live_on
SELECT run_whole.* FROM claim JOIN run_whole ON run_whole.id = claim.run_id WHERE claim.machine = :machine ORDER BY claim.fence;
