-- name: runs_get
SELECT * FROM run_whole WHERE id = :id;

-- name: runs_task
SELECT task_id FROM run WHERE id = :id;

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
    state = :state, early_fail_kind = :early_fail_kind, early_fail_reason = :early_fail_reason, stop_told = :stop_told,
    kind = :kind, reason = :reason, harness_session = :harness_session, settled_at = :settled_at,
    answered_at = :answered_at, stalled_since = :stalled_since, stop_failed = :stop_failed
WHERE id = :id AND fence = :fence AND state = :was_state AND state <> 'settled';

-- name: runs_save_session
UPDATE session SET harness_session = :harness_session WHERE id = :id;

-- name: runs_release
DELETE FROM claim WHERE run_id = :run_id AND fence = :fence RETURNING checkout;

-- name: runs_of_task
SELECT * FROM run_whole WHERE task_id = :task_id ORDER BY number;

-- name: runs_by_execution
SELECT * FROM run_whole WHERE execution_id = :execution_id ORDER BY number DESC LIMIT 1;

-- name: runs_set_place
UPDATE run SET place = :place WHERE id = :id AND fence = :fence AND state <> 'settled';

-- name: runs_ids
SELECT claim.run_id FROM claim JOIN run ON run.id = claim.run_id
WHERE claim.machine = :machine AND run.state = :state ORDER BY claim.fence;

-- name: runs_live_beside
SELECT other.task_id, other.fence
FROM run AS mine JOIN claim ON claim.machine = :machine JOIN run AS other ON other.id = claim.run_id
WHERE mine.id = :run_id AND other.task_id <> mine.task_id AND (
    other.place = mine.place
    OR (mine.place LIKE '%/' AND substr(other.place, 1, length(mine.place)) = mine.place)
    OR (mine.place LIKE '%/' AND other.place LIKE '%/' AND substr(mine.place, 1, length(other.place)) = other.place)
)
LIMIT :limit;

-- name: runs_settled_beside
SELECT other.task_id, other.fence
FROM run AS mine JOIN run AS other ON other.settled_at > :since AND other.place IS NOT NULL
JOIN execution ON execution.id = other.execution_id
WHERE mine.id = :run_id AND other.task_id <> mine.task_id AND execution.machine = :machine
    AND execution.agent_pid IS NOT NULL AND (
        other.place = mine.place
        OR (mine.place LIKE '%/' AND substr(other.place, 1, length(mine.place)) = mine.place)
        OR (mine.place LIKE '%/' AND other.place LIKE '%/' AND substr(mine.place, 1, length(other.place)) = other.place)
    )
LIMIT :limit;

-- name: runs_next_fence
UPDATE meta SET fence = fence + 1 WHERE id = 1 RETURNING fence;

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
    id, task_id, number, fence, execution_id, cause, state, claimed_at, early_fail_kind, early_fail_reason,
    stop_told, kind, reason, harness_session, settled_at, answered_at, stalled_since, stop_failed
) VALUES (
    :id, :task_id, :number, :fence, :execution_id, :cause, :state, :claimed_at, :early_fail_kind, :early_fail_reason,
    :stop_told, :kind, :reason, :harness_session, :settled_at, :answered_at, :stalled_since, :stop_failed
) ON CONFLICT DO NOTHING;
