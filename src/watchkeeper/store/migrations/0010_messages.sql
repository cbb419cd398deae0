-- What people say to the agent of a task after its prompt. A message waits, is taken by a run, and ends once.
CREATE TABLE message (
    task_id TEXT NOT NULL REFERENCES task (id),
    number INTEGER NOT NULL CHECK (number > 0),
    state TEXT NOT NULL CHECK (state IN ('waiting', 'taken', 'answered', 'stopped', 'failed')),
    key TEXT CHECK (key <> ''),
    run_id TEXT REFERENCES run (id),
    body TEXT NOT NULL CHECK (json_valid(body)),
    PRIMARY KEY (task_id, number),
    CHECK (state <> 'taken' OR run_id IS NOT NULL)
) STRICT;

CREATE UNIQUE INDEX message_key ON message (task_id, key) WHERE key IS NOT NULL;
CREATE INDEX message_open ON message (task_id, number) WHERE state IN ('waiting', 'taken');

-- Which conversation a run resumes, and which messages it was given. The launch reads it, so it is written with the run.
CREATE INDEX message_run ON message (run_id);

CREATE TABLE turn (
    run_id TEXT PRIMARY KEY REFERENCES run (id),
    task_id TEXT NOT NULL REFERENCES task (id),
    body TEXT NOT NULL CHECK (json_valid(body))
) STRICT;

CREATE INDEX turn_task ON turn (task_id);
