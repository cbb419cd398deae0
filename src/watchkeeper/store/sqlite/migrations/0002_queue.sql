-- The whole queue: lanes, dependencies, checkouts, rules, labels; accounts and what is known of them; machines with leases.
--
-- What keeps a single task from being claimed stands in its own row (`ready`, `unmet`, `parked`), kept by the transaction that changes it. What keeps many
-- from it (a limit, a pause, a sign-in) is looked up once for each lane. `wk doctor` audits both against what they are derived from.

CREATE TABLE lane (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    machine TEXT NOT NULL,
    harness TEXT NOT NULL CHECK (harness <> ''),
    account TEXT NOT NULL CHECK (account <> ''),
    project TEXT NOT NULL,
    UNIQUE (machine, harness, account, project)
) STRICT;

ALTER TABLE task ADD COLUMN lane INTEGER NOT NULL DEFAULT 0;
ALTER TABLE task ADD COLUMN checkout TEXT CHECK (checkout <> '');
ALTER TABLE task ADD COLUMN unmet INTEGER NOT NULL DEFAULT 0 CHECK (unmet >= 0);
-- Another task works in its checkout, or stands before it there in its lane: it is looked at again when that changes.
ALTER TABLE task ADD COLUMN parked INTEGER NOT NULL DEFAULT 0 CHECK (
    parked = 0
    OR (parked = 1 AND checkout IS NOT NULL AND state = 'queued' AND stop_at IS NULL AND ready = 1 AND unmet = 0)
);
ALTER TABLE task ADD COLUMN wake_for TEXT CHECK (wake_for IN ('not before', 'retry at', 'quota until'));
ALTER TABLE task ADD COLUMN pinned_at INTEGER;

ALTER TABLE claim ADD COLUMN lane INTEGER NOT NULL DEFAULT 0;
ALTER TABLE claim ADD COLUMN machine TEXT NOT NULL DEFAULT '';
ALTER TABLE claim ADD COLUMN checkout TEXT;

UPDATE task SET wake_for = CASE WHEN runs = 0 THEN 'not before' WHEN kind = 'quota' THEN 'quota until' ELSE 'retry at' END
WHERE wake_at IS NOT NULL;
INSERT INTO lane (machine, harness, account, project)
SELECT DISTINCT '', json_extract(body, '$.harness'), json_extract(body, '$.harness') || ':own', '' FROM spec;
UPDATE task SET lane = (
    SELECT lane.id FROM lane JOIN spec ON lane.harness = json_extract(spec.body, '$.harness') WHERE spec.task_id = task.id
);
UPDATE claim SET
    lane = (SELECT lane FROM task WHERE id = claim.task_id),
    machine = (SELECT execution.machine FROM run JOIN execution ON execution.id = run.execution_id WHERE run.id = claim.run_id);

DROP INDEX task_ready;
CREATE INDEX task_ready ON task (lane, priority DESC, seq)
    WHERE state = 'queued' AND stop_at IS NULL AND ready = 1 AND unmet = 0 AND parked = 0;
CREATE INDEX task_checkout ON task (checkout, parked, lane, priority DESC, seq)
    WHERE checkout IS NOT NULL AND state = 'queued' AND stop_at IS NULL AND ready = 1 AND unmet = 0;
CREATE INDEX task_pinned ON task (pinned_at) WHERE pinned_at IS NOT NULL;
-- One task at a time works in a checkout.
CREATE UNIQUE INDEX claim_checkout ON claim (machine, checkout) WHERE checkout IS NOT NULL;
CREATE INDEX claim_machine ON claim (machine, fence);

CREATE TABLE dependency (
    task_id TEXT NOT NULL REFERENCES task (id),
    on_id TEXT NOT NULL REFERENCES task (id),
    PRIMARY KEY (task_id, on_id),
    CHECK (task_id <> on_id)
) STRICT, WITHOUT ROWID;

CREATE INDEX dependency_on ON dependency (on_id, task_id);

CREATE TABLE label (
    task_id TEXT NOT NULL REFERENCES task (id),
    name TEXT NOT NULL CHECK (name <> ''),
    PRIMARY KEY (task_id, name)
) STRICT, WITHOUT ROWID;

CREATE INDEX label_name ON label (name, task_id);

CREATE TABLE queue_rule (
    scope TEXT NOT NULL CHECK (scope IN ('all', 'machine', 'harness', 'account', 'project')),
    name TEXT NOT NULL CHECK ((name = '') = (scope = 'all')),
    paused INTEGER NOT NULL CHECK (paused IN (0, 1)),
    max_running INTEGER CHECK (max_running > 0),
    by TEXT NOT NULL,
    at INTEGER NOT NULL,
    PRIMARY KEY (scope, name)
) STRICT, WITHOUT ROWID;

-- Why a lane was last found closed on a machine, so that each change is told once.
CREATE TABLE lane_closed (
    machine TEXT NOT NULL,
    lane INTEGER NOT NULL REFERENCES lane (id),
    reason TEXT NOT NULL CHECK (reason <> ''),
    at INTEGER NOT NULL,
    PRIMARY KEY (machine, lane)
) STRICT, WITHOUT ROWID;

CREATE TABLE account (
    id TEXT PRIMARY KEY CHECK (id = harness || ':' || name),
    harness TEXT NOT NULL CHECK (harness <> ''),
    name TEXT NOT NULL CHECK (name <> ''),
    home TEXT CHECK (home <> ''),
    variables TEXT NOT NULL CHECK (json_valid(variables)),
    created_at INTEGER NOT NULL,
    by TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE account_state (
    account TEXT NOT NULL,
    machine TEXT NOT NULL,
    sign_in TEXT NOT NULL CHECK (sign_in IN ('in', 'out', 'unknown')),
    sign_in_at INTEGER,
    says TEXT NOT NULL,
    mark TEXT NOT NULL,
    quota_until INTEGER,
    quota_at INTEGER,
    PRIMARY KEY (account, machine)
) STRICT, WITHOUT ROWID;

-- An older observation never overwrites a newer one.
CREATE TRIGGER sign_in_goes_forward BEFORE UPDATE OF sign_in, sign_in_at ON account_state
WHEN NEW.sign_in_at < OLD.sign_in_at OR (NEW.sign_in_at IS NULL AND OLD.sign_in_at IS NOT NULL) BEGIN
    SELECT raise(ABORT, 'a newer sign-in is known');
END;

CREATE TRIGGER quota_goes_forward BEFORE UPDATE OF quota_until, quota_at ON account_state
WHEN NEW.quota_at < OLD.quota_at OR (NEW.quota_at IS NULL AND OLD.quota_at IS NOT NULL) BEGIN
    SELECT raise(ABORT, 'a newer quota is known');
END;

CREATE TABLE harness_state (
    harness TEXT NOT NULL,
    machine TEXT NOT NULL,
    present INTEGER NOT NULL CHECK (present IN (0, 1)),
    says TEXT NOT NULL,
    at INTEGER NOT NULL,
    PRIMARY KEY (harness, machine)
) STRICT, WITHOUT ROWID;

-- `holder` is a random word of the daemon that began the incarnation. Only machines that share a database have a lease.
ALTER TABLE machine ADD COLUMN name TEXT NOT NULL DEFAULT '';
ALTER TABLE machine ADD COLUMN holder TEXT NOT NULL DEFAULT '';
ALTER TABLE machine ADD COLUMN version TEXT NOT NULL DEFAULT '';
ALTER TABLE machine ADD COLUMN lease_until INTEGER;

-- Where the caller's environment is kept, and who is to do an effect; empty: whoever has it, and anybody.
ALTER TABLE task ADD COLUMN environment_machine TEXT NOT NULL DEFAULT '';
ALTER TABLE outbox ADD COLUMN machine TEXT NOT NULL DEFAULT '';

CREATE INDEX operation_at ON operation (at);

DROP TRIGGER task_identity;
CREATE TRIGGER task_identity BEFORE UPDATE OF seq, id, created_at ON task BEGIN
    SELECT raise(ABORT, 'what a task is never changes');
END;

DROP TRIGGER spec_kept;
CREATE TRIGGER spec_kept BEFORE UPDATE ON spec
WHEN NEW.task_id <> OLD.task_id
    OR ((SELECT state FROM task WHERE id = OLD.task_id) <> 'queued'
        AND json_remove(NEW.body, '$.title') <> json_remove(OLD.body, '$.title')) BEGIN
    SELECT raise(ABORT, 'what was asked for changes only while it waits, but for its title');
END;

-- A task is claimed only when nothing of its own stands in the way.
DROP TRIGGER claim_of_queued;
CREATE TRIGGER claim_of_queued AFTER INSERT ON claim
WHEN NOT EXISTS (
    SELECT 1 FROM task
    WHERE id = NEW.task_id AND state = 'queued' AND stop_at IS NULL AND unmet = 0 AND checkout IS NEW.checkout
) BEGIN
    SELECT raise(ABORT, 'only a queued task that is not stopped and waits for no other is claimed');
END;

DROP VIEW task_whole;
CREATE VIEW task_whole AS
SELECT
    task.id, task.state, task.version, task.created_at, task.updated_at, task.runs, task.attempts, task.unlaunched,
    task.run_id, task.wake_at, task.wake_for, task.stop_how, task.stop_by, task.stop_at, task.stop_grace_s,
    task.environment_id, task.environment_machine, task.reason, task.kind, task.ended_at, task.pinned_at, spec.body
FROM task JOIN spec ON spec.task_id = task.id;
