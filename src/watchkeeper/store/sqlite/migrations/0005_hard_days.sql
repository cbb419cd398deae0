-- Hard days: what is known of a run between its start and its end, why a stop fails, where a task may work, a key against
-- handing over twice, and records that cannot be read.

-- When the program was seen to have given its final answer while its process went on. NULL: not yet.
ALTER TABLE run ADD COLUMN answered_at INTEGER;
-- Since when the run shows no progress. NULL: it makes progress, or is not watched.
ALTER TABLE run ADD COLUMN stalled_since INTEGER;
-- Why a stop that was asked for has not ended the agent yet. NULL: none was asked for, or it has not failed.
ALTER TABLE run ADD COLUMN stop_failed TEXT CHECK (stop_failed <> '');

-- The working directory that was approved: its device, inode, repository and branch, as JSON. NULL in rows of older versions.
ALTER TABLE authorisation ADD COLUMN place TEXT CHECK (place IS NULL OR json_valid(place));

-- The caller's own name for a hand-over, and the hash of what was handed over under it.
ALTER TABLE task ADD COLUMN key TEXT CHECK (key <> '');
ALTER TABLE task ADD COLUMN key_digest TEXT CHECK ((key IS NULL) = (key_digest IS NULL));
CREATE UNIQUE INDEX task_key ON task (key) WHERE key IS NOT NULL;

-- Records that could not be read, so that they are named where a person looks. A row goes when its record can be read again, or is repaired.
CREATE TABLE damage (
    place TEXT NOT NULL CHECK (place <> ''),
    id TEXT NOT NULL,
    task_id TEXT,
    reason TEXT NOT NULL CHECK (reason <> ''),
    at INTEGER NOT NULL,
    PRIMARY KEY (place, id)
) STRICT, WITHOUT ROWID;

CREATE INDEX damage_task ON damage (task_id) WHERE task_id IS NOT NULL;

DROP VIEW run_whole;
CREATE VIEW run_whole AS
SELECT
    run.id, run.task_id, run.number, run.fence, run.execution_id, run.cause, run.state,
    execution.machine, execution.incarnation, run.claimed_at, execution.device, execution.inode,
    execution.shim_started_at, execution.agent_pid, execution.agent_start_ticks, execution.agent_boot_id,
    execution.agent_started_at, execution.exit, run.condemned_kind, run.condemned_reason, run.stop_told,
    execution.proof, run.kind, run.reason, run.harness_session, run.settled_at, run.answered_at, run.stalled_since,
    run.stop_failed
FROM run JOIN execution ON execution.id = run.execution_id;

-- The ids of tasks that were removed, so that their beginning never means another task without a word.
CREATE TABLE removed_task (
    id TEXT NOT NULL PRIMARY KEY CHECK (id <> '')
) STRICT, WITHOUT ROWID;
INSERT INTO removed_task (id)
SELECT DISTINCT task_id FROM journal WHERE kind = 'task.removed' AND task_id IS NOT NULL;

-- How many tasks are in a state is counted anew by a repair. A count that is torn must not keep tasks from moving or going meanwhile.
DROP TRIGGER task_moved;
CREATE TRIGGER task_moved AFTER UPDATE OF state ON task WHEN NEW.state <> OLD.state BEGIN
    UPDATE tally SET tasks = max(tasks - 1, 0) WHERE state = OLD.state;
    UPDATE tally SET tasks = max(tasks, 0) + 1 WHERE state = NEW.state;
END;
DROP TRIGGER task_removed;
CREATE TRIGGER task_removed AFTER DELETE ON task BEGIN
    UPDATE tally SET tasks = max(tasks - 1, 0) WHERE state = OLD.state;
END;
DROP TRIGGER task_added;
CREATE TRIGGER task_added AFTER INSERT ON task BEGIN
    UPDATE tally SET tasks = max(tasks, 0) + 1 WHERE state = NEW.state;
END;
