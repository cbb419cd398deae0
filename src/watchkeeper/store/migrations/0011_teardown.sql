-- A third kind of command lines around a run: those that clear up before its worktree is removed. Rows stay as they are.
ALTER TABLE side_command RENAME TO side_command_before;

CREATE TABLE side_command (
    run_id TEXT NOT NULL REFERENCES run (id),
    kind TEXT NOT NULL CHECK (kind IN ('check', 'setup', 'teardown')),
    number INTEGER NOT NULL CHECK (number > 0),
    task_id TEXT NOT NULL REFERENCES task (id),
    execution_id TEXT NOT NULL UNIQUE,
    state TEXT NOT NULL CHECK (state IN ('reserved', 'prepared', 'started', 'ended')),
    body TEXT NOT NULL CHECK (json_valid(body)),
    PRIMARY KEY (run_id, kind, number)
) STRICT;

INSERT INTO side_command (run_id, kind, number, task_id, execution_id, state, body)
SELECT run_id, kind, number, task_id, execution_id, state, body FROM side_command_before;

DROP TABLE side_command_before;

CREATE INDEX side_command_task ON side_command (task_id, run_id, kind, number);
