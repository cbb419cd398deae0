-- The whole queue: lanes, dependencies, checkouts, rules, labels; accounts and what is known of them; machines with leases.
--
-- What keeps a single task from being claimed stands in its own row (`ready`, `unmet`, `parked`), kept by the transaction that changes it. What keeps many
-- from it (a limit, a pause, a sign-in) is looked up once for each lane. `wk doctor` audits both against what they are derived from.

INSERT INTO counter (name, last) VALUES ('lane', 0);

CREATE TABLE lane (
    id BIGINT PRIMARY KEY DEFAULT next_number('lane'),
    machine TEXT COLLATE "C" NOT NULL,
    harness TEXT COLLATE "C" NOT NULL CHECK (harness <> ''),
    account TEXT COLLATE "C" NOT NULL CHECK (account <> ''),
    project TEXT COLLATE "C" NOT NULL,
    UNIQUE (machine, harness, account, project)
);

ALTER TABLE task
    ADD COLUMN lane BIGINT NOT NULL DEFAULT 0,
    ADD COLUMN checkout TEXT COLLATE "C" CHECK (checkout <> ''),
    ADD COLUMN unmet BIGINT NOT NULL DEFAULT 0 CHECK (unmet >= 0),
    -- Another task works in its checkout, or stands before it there in its lane: it is looked at again when that changes.
    ADD COLUMN parked BIGINT NOT NULL DEFAULT 0 CHECK (
        parked = 0
        OR (parked = 1 AND checkout IS NOT NULL AND state = 'queued' AND stop_at IS NULL AND ready = 1 AND unmet = 0)
    ),
    ADD COLUMN wake_for TEXT COLLATE "C" CHECK (wake_for IN ('not before', 'retry at', 'quota until')),
    ADD COLUMN pinned_at BIGINT;

ALTER TABLE claim
    ADD COLUMN lane BIGINT NOT NULL DEFAULT 0,
    ADD COLUMN machine TEXT COLLATE "C" NOT NULL DEFAULT '',
    ADD COLUMN checkout TEXT COLLATE "C";

-- No version with the first schema alone was ever given to anybody who has PostgreSQL, so there are no rows to bring along.

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
    task_id TEXT COLLATE "C" NOT NULL REFERENCES task (id),
    on_id TEXT COLLATE "C" NOT NULL REFERENCES task (id),
    PRIMARY KEY (task_id, on_id),
    CHECK (task_id <> on_id)
);

CREATE INDEX dependency_on ON dependency (on_id, task_id);

CREATE TABLE label (
    task_id TEXT COLLATE "C" NOT NULL REFERENCES task (id),
    name TEXT COLLATE "C" NOT NULL CHECK (name <> ''),
    PRIMARY KEY (task_id, name)
);

CREATE INDEX label_name ON label (name, task_id);

CREATE TABLE queue_rule (
    scope TEXT COLLATE "C" NOT NULL CHECK (scope IN ('all', 'machine', 'harness', 'account', 'project')),
    name TEXT COLLATE "C" NOT NULL CHECK ((name = '') = (scope = 'all')),
    paused BIGINT NOT NULL CHECK (paused IN (0, 1)),
    max_running BIGINT CHECK (max_running > 0),
    by TEXT COLLATE "C" NOT NULL,
    at BIGINT NOT NULL,
    PRIMARY KEY (scope, name)
);

-- Why a lane was last found closed on a machine, so that each change is told once.
CREATE TABLE lane_closed (
    machine TEXT COLLATE "C" NOT NULL,
    lane BIGINT NOT NULL REFERENCES lane (id),
    reason TEXT COLLATE "C" NOT NULL CHECK (reason <> ''),
    at BIGINT NOT NULL,
    PRIMARY KEY (machine, lane)
);

CREATE TABLE account (
    id TEXT COLLATE "C" PRIMARY KEY CHECK (id = harness || ':' || name),
    harness TEXT COLLATE "C" NOT NULL CHECK (harness <> ''),
    name TEXT COLLATE "C" NOT NULL CHECK (name <> ''),
    home TEXT COLLATE "C" CHECK (home <> ''),
    variables TEXT COLLATE "C" NOT NULL CHECK (variables::json IS NOT NULL),
    created_at BIGINT NOT NULL,
    by TEXT COLLATE "C" NOT NULL
);

CREATE TABLE account_state (
    account TEXT COLLATE "C" NOT NULL,
    machine TEXT COLLATE "C" NOT NULL,
    sign_in TEXT COLLATE "C" NOT NULL CHECK (sign_in IN ('in', 'out', 'unknown')),
    sign_in_at BIGINT,
    says TEXT COLLATE "C" NOT NULL,
    mark TEXT COLLATE "C" NOT NULL,
    quota_until BIGINT,
    quota_at BIGINT,
    PRIMARY KEY (account, machine)
);

-- An older observation never overwrites a newer one.
CREATE TRIGGER sign_in_goes_forward BEFORE UPDATE OF sign_in, sign_in_at ON account_state
FOR EACH ROW WHEN (NEW.sign_in_at < OLD.sign_in_at OR (NEW.sign_in_at IS NULL AND OLD.sign_in_at IS NOT NULL))
EXECUTE FUNCTION refuse('a newer sign-in is known');

CREATE TRIGGER quota_goes_forward BEFORE UPDATE OF quota_until, quota_at ON account_state
FOR EACH ROW WHEN (NEW.quota_at < OLD.quota_at OR (NEW.quota_at IS NULL AND OLD.quota_at IS NOT NULL))
EXECUTE FUNCTION refuse('a newer quota is known');

CREATE TABLE harness_state (
    harness TEXT COLLATE "C" NOT NULL,
    machine TEXT COLLATE "C" NOT NULL,
    present BIGINT NOT NULL CHECK (present IN (0, 1)),
    says TEXT COLLATE "C" NOT NULL,
    at BIGINT NOT NULL,
    PRIMARY KEY (harness, machine)
);

-- `holder` is a random word of the daemon that began the incarnation.
ALTER TABLE machine
    ADD COLUMN name TEXT COLLATE "C" NOT NULL DEFAULT '',
    ADD COLUMN holder TEXT COLLATE "C" NOT NULL DEFAULT '',
    ADD COLUMN version TEXT COLLATE "C" NOT NULL DEFAULT '',
    ADD COLUMN lease_until BIGINT;

-- Where the caller's environment is kept, and who is to do an effect; empty: whoever has it, and anybody.
ALTER TABLE task ADD COLUMN environment_machine TEXT COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE outbox ADD COLUMN machine TEXT COLLATE "C" NOT NULL DEFAULT '';

CREATE INDEX operation_at ON operation (at);

DROP TRIGGER task_identity ON task;
CREATE TRIGGER task_identity BEFORE UPDATE OF seq, id, created_at ON task
FOR EACH ROW EXECUTE FUNCTION refuse('what a task is never changes');

-- The title is cut out as text: PostgreSQL's own way of reading JSON stops at broken surrogates, which a prompt may hold. Inside of a JSON text every
-- quotation mark has a backslash before it, so the key is found nowhere else.
DROP TRIGGER spec_kept ON spec;
CREATE FUNCTION spec_kept() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    title CONSTANT TEXT := '"title":"([^"\\]|\\.)*"';
BEGIN
    IF NEW.task_id <> OLD.task_id
        OR ((SELECT state FROM watchkeeper.task WHERE id = OLD.task_id) <> 'queued'
            AND regexp_replace(NEW.body, title, '') <> regexp_replace(OLD.body, title, '')) THEN
        RAISE EXCEPTION 'what was asked for changes only while it waits, but for its title'
            USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER spec_kept BEFORE UPDATE ON spec FOR EACH ROW EXECUTE FUNCTION spec_kept();

-- A task is claimed only when nothing of its own stands in the way.
CREATE OR REPLACE FUNCTION claim_of_queued() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (
        SELECT 1 FROM watchkeeper.task
        WHERE id = NEW.task_id AND state = 'queued' AND stop_at IS NULL AND unmet = 0
            AND checkout IS NOT DISTINCT FROM NEW.checkout
    ) THEN
        RAISE EXCEPTION 'only a queued task that is not stopped and waits for no other is claimed'
            USING ERRCODE = 'check_violation';
    END IF;
    RETURN NULL;
END $$;

DROP VIEW task_whole;
CREATE VIEW task_whole AS
SELECT
    task.id, task.state, task.version, task.created_at, task.updated_at, task.runs, task.attempts, task.unlaunched,
    task.run_id, task.wake_at, task.wake_for, task.stop_how, task.stop_by, task.stop_at, task.stop_grace_s,
    task.environment_id, task.environment_machine, task.reason, task.kind, task.ended_at, task.pinned_at, spec.body
FROM task JOIN spec ON spec.task_id = task.id;
