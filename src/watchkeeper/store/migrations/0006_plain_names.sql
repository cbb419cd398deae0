-- Columns get the names that the rest of the program uses. Nothing else changes.

DROP VIEW run_whole;

-- A claim met the task while its checkout was taken: claims skip it until something changes there.
ALTER TABLE task RENAME COLUMN parked TO blocked;
-- Why a run was ended before its time: its output can only end one way.
ALTER TABLE run RENAME COLUMN condemned_kind TO early_fail_kind;
ALTER TABLE run RENAME COLUMN condemned_reason TO early_fail_reason;
-- A text for people about the state of the row.
ALTER TABLE authorisation RENAME COLUMN says TO detail;
ALTER TABLE account_state RENAME COLUMN says TO detail;
ALTER TABLE account_state RENAME COLUMN trouble_says TO trouble_detail;
ALTER TABLE harness_state RENAME COLUMN says TO detail;

CREATE VIEW run_whole AS
SELECT
    run.id, run.task_id, run.number, run.fence, run.execution_id, run.cause, run.state,
    execution.machine, execution.incarnation, run.claimed_at, execution.device, execution.inode,
    execution.shim_started_at, execution.agent_pid, execution.agent_start_ticks, execution.agent_boot_id,
    execution.agent_started_at, execution.exit, run.early_fail_kind, run.early_fail_reason, run.stop_told,
    execution.proof, run.kind, run.reason, run.harness_session, run.settled_at, run.answered_at, run.stalled_since,
    run.stop_failed
FROM run JOIN execution ON execution.id = run.execution_id;
