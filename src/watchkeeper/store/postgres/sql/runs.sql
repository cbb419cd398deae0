-- name: runs_add_claim
INSERT INTO claim (task_id, run_id, fence, machine, lane, checkout)
SELECT id, :run_id, CAST(:fence AS BIGINT), :machine, lane, checkout FROM task WHERE id = :task_id
ON CONFLICT DO NOTHING;

-- name: runs_add_session
INSERT INTO session (id, task_id, harness, harness_session, created_at)
SELECT :id, task.id, lane.harness, NULL, CAST(:created_at AS BIGINT)
FROM task JOIN lane ON lane.id = task.lane WHERE task.id = :task_id
ON CONFLICT (id) DO NOTHING;

-- name: runs_add_execution
INSERT INTO execution (
    id, session_id, machine, incarnation, device, inode, shim_started_at,
    agent_pid, agent_start_ticks, agent_boot_id, agent_started_at, exit, proof
) VALUES (
    :id, :session_id, :machine, :incarnation, :device, :inode, :shim_started_at,
    :agent_pid, :agent_start_ticks, :agent_boot_id, :agent_started_at, :exit, :proof
) ON CONFLICT DO NOTHING;

-- name: runs_add
INSERT INTO run (
    id, task_id, number, fence, execution_id, cause, state, claimed_at, condemned_kind, condemned_reason,
    stop_told, kind, reason, harness_session, settled_at
) VALUES (
    :id, :task_id, :number, :fence, :execution_id, :cause, :state, :claimed_at, :condemned_kind, :condemned_reason,
    :stop_told, :kind, :reason, :harness_session, :settled_at
) ON CONFLICT DO NOTHING;

-- name: runs_get
SELECT * FROM run_whole WHERE id = :id;

-- name: runs_save_execution
UPDATE execution SET
    device = :device, inode = :inode, shim_started_at = :shim_started_at, agent_pid = :agent_pid,
    agent_start_ticks = :agent_start_ticks, agent_boot_id = :agent_boot_id, agent_started_at = :agent_started_at,
    exit = :exit, proof = :proof
WHERE id = :id
    AND EXISTS (
        SELECT 1 FROM run
        WHERE run.id = :run_id AND run.fence = :fence AND run.state = :was_state AND run.state <> 'settled'
    );

-- name: runs_save
UPDATE run SET
    state = :state, condemned_kind = :condemned_kind, condemned_reason = :condemned_reason, stop_told = :stop_told,
    kind = :kind, reason = :reason, harness_session = :harness_session, settled_at = :settled_at
WHERE id = :id AND fence = :fence AND state = :was_state AND state <> 'settled';

-- name: runs_save_session
UPDATE session SET harness_session = :harness_session WHERE id = :id;

-- name: runs_release
DELETE FROM claim WHERE run_id = :run_id AND fence = :fence RETURNING checkout;

-- name: runs_live
SELECT whole.* FROM claim CROSS JOIN LATERAL (SELECT * FROM run_whole WHERE id = claim.run_id OFFSET 0) AS whole
ORDER BY claim.fence;

-- name: runs_live_on
SELECT whole.* FROM claim CROSS JOIN LATERAL (SELECT * FROM run_whole WHERE id = claim.run_id OFFSET 0) AS whole
WHERE claim.machine = :machine ORDER BY claim.fence;

-- name: runs_of_task
SELECT * FROM run_whole WHERE task_id = :task_id ORDER BY number;

-- name: runs_by_execution
SELECT * FROM run_whole WHERE execution_id = :execution_id ORDER BY number DESC LIMIT 1;

-- name: runs_next_fence
UPDATE meta SET fence = fence + 1 WHERE id = 1 RETURNING fence;
