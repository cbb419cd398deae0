-- Command lines of the user's own around a run, each an execution of its own. The right to run one is on record before it is started.
CREATE TABLE side_command (
    run_id TEXT NOT NULL REFERENCES run (id),
    kind TEXT NOT NULL CHECK (kind IN ('check', 'setup')),
    number INTEGER NOT NULL CHECK (number > 0),
    task_id TEXT NOT NULL REFERENCES task (id),
    execution_id TEXT NOT NULL UNIQUE,
    state TEXT NOT NULL CHECK (state IN ('reserved', 'prepared', 'started', 'ended')),
    body TEXT NOT NULL CHECK (json_valid(body)),
    PRIMARY KEY (run_id, kind, number)
) STRICT;

CREATE INDEX side_command_task ON side_command (task_id, run_id, kind, number);

-- What a run changed, as it was before its checks ran.
CREATE TABLE changes_before_checks (
    run_id TEXT PRIMARY KEY REFERENCES run (id),
    changes TEXT CHECK (json_valid(changes))
) STRICT;
