-- The first schema, rule for rule that of SQLite. Times are microseconds since 1970 in UTC, durations seconds, structured values JSON (as text: it comes
-- back letter for letter, broken surrogates included). Texts are compared by their bytes.
--
-- Four things are held together by foreign keys that are checked at commit, so that no transaction can store half of them:
--   a run is not settled          <=>  it has a claim
--   a run is settled              <=>  it has an outcome, under the same fence
--   a task names a run as its own <=>  that run's claim names the task
-- Generated columns (`live_id`, `settled_id`) make these rules ordinary foreign keys.

CREATE TABLE migration (
    number BIGINT PRIMARY KEY CHECK (number > 0),
    name TEXT COLLATE "C" NOT NULL UNIQUE,
    sha256 TEXT COLLATE "C" NOT NULL CHECK (length(sha256) = 64),
    at BIGINT NOT NULL
);

CREATE TABLE meta (
    id BIGINT PRIMARY KEY CHECK (id = 1),
    database_id TEXT COLLATE "C" NOT NULL CHECK (database_id <> ''),
    fence BIGINT NOT NULL CHECK (fence >= 0)
) WITH (fillfactor = 50);

INSERT INTO meta (id, database_id, fence) VALUES (1, replace(gen_random_uuid()::text, '-', ''), 0);

-- Numbers that are given in the order of commits, by whomever, and never twice: the row is locked until the transaction ends, and what is undone gives its
-- numbers back. A sequence would promise neither. `commit` counts transactions that changed something.
CREATE TABLE counter (
    name TEXT COLLATE "C" PRIMARY KEY,
    last BIGINT NOT NULL CHECK (last >= 0)
) WITH (fillfactor = 50);

INSERT INTO counter (name, last) VALUES ('task', 0), ('authorisation', 0), ('journal', 0), ('outbox', 0), ('commit', 0);

-- Rules say no in their own words, the trigger's argument.
CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '%', TG_ARGV[0] USING ERRCODE = 'check_violation';
END $$;

CREATE TRIGGER counter_rises BEFORE UPDATE OF last ON counter
FOR EACH ROW WHEN (NEW.last <= OLD.last) EXECUTE FUNCTION refuse('a number is never given twice');

CREATE FUNCTION next_number(of_what TEXT) RETURNS BIGINT LANGUAGE sql AS $$
    UPDATE watchkeeper.counter SET last = last + 1 WHERE name = of_what RETURNING last
$$;

CREATE TABLE machine (
    id TEXT COLLATE "C" PRIMARY KEY CHECK (id <> ''),
    incarnation BIGINT NOT NULL CHECK (incarnation > 0),
    boot_id TEXT COLLATE "C" NOT NULL,
    started_at BIGINT NOT NULL
);

-- `seq` is the order in which tasks were handed over. `ready` is 0 only while a queued task waits for `wake_at`.
CREATE TABLE task (
    seq BIGINT PRIMARY KEY DEFAULT next_number('task'),
    id TEXT COLLATE "C" NOT NULL UNIQUE CHECK (id <> ''),
    state TEXT COLLATE "C" NOT NULL
        CHECK (state IN ('queued', 'running', 'needs_input', 'held', 'done', 'failed', 'stopped')),
    version BIGINT NOT NULL CHECK (version >= 0),
    priority BIGINT NOT NULL,
    ready BIGINT NOT NULL CHECK (ready IN (0, 1)),
    wake_at BIGINT,
    runs BIGINT NOT NULL CHECK (runs >= 0),
    attempts BIGINT NOT NULL CHECK (attempts >= 0),
    unlaunched BIGINT NOT NULL CHECK (unlaunched >= 0),
    run_id TEXT COLLATE "C",
    stop_how TEXT COLLATE "C" CHECK (stop_how IN ('stop', 'kill')),
    stop_by TEXT COLLATE "C",
    stop_at BIGINT,
    stop_grace_s DOUBLE PRECISION CHECK (stop_grace_s >= 0),
    environment_id TEXT COLLATE "C" NOT NULL,
    reason TEXT COLLATE "C" NOT NULL,
    kind TEXT COLLATE "C" CHECK (kind <> ''),
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    ended_at BIGINT,
    UNIQUE (run_id, id),
    CHECK (state <> 'running' OR run_id IS NOT NULL),
    CHECK (run_id IS NULL OR state IN ('running', 'held')),
    CHECK ((state IN ('done', 'failed', 'stopped')) = (ended_at IS NOT NULL)),
    CHECK (wake_at IS NULL OR state = 'queued'),
    CHECK (ready = 1 OR wake_at IS NOT NULL),
    CHECK ((stop_how IS NULL) = (stop_at IS NULL) AND (stop_how IS NULL) = (stop_by IS NULL)),
    CHECK (stop_grace_s IS NULL OR stop_how IS NOT NULL)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02);

CREATE INDEX task_ready ON task (priority DESC, seq) WHERE state = 'queued' AND stop_at IS NULL AND ready = 1;
CREATE INDEX task_waiting ON task (wake_at, priority, seq) WHERE state = 'queued' AND stop_at IS NULL AND ready = 0;
CREATE INDEX task_state ON task (state, seq);
CREATE INDEX task_environment ON task (environment_id) WHERE ended_at IS NULL;

-- What was asked for: never changes, and may be long, so it is not in the row that is written at every step.
CREATE TABLE spec (
    task_id TEXT COLLATE "C" PRIMARY KEY REFERENCES task (id),
    body TEXT COLLATE "C" NOT NULL CHECK (body::json IS NOT NULL)
);

CREATE TABLE authorisation (
    seq BIGINT PRIMARY KEY DEFAULT next_number('authorisation'),
    id TEXT COLLATE "C" NOT NULL UNIQUE CHECK (id <> ''),
    task_id TEXT COLLATE "C" NOT NULL REFERENCES task (id),
    kind TEXT COLLATE "C" NOT NULL CHECK (kind IN ('person', 'grant', 'inherited')),
    by TEXT COLLATE "C" NOT NULL,
    says TEXT COLLATE "C" NOT NULL,
    at BIGINT NOT NULL
);

CREATE INDEX authorisation_task ON authorisation (task_id, seq);

CREATE TABLE session (
    id TEXT COLLATE "C" PRIMARY KEY CHECK (id <> ''),
    task_id TEXT COLLATE "C" NOT NULL REFERENCES task (id),
    harness TEXT COLLATE "C" NOT NULL,
    harness_session TEXT COLLATE "C",
    created_at BIGINT NOT NULL
);

CREATE INDEX session_task ON session (task_id);

CREATE TABLE execution (
    id TEXT COLLATE "C" PRIMARY KEY CHECK (id <> ''),
    session_id TEXT COLLATE "C" NOT NULL REFERENCES session (id),
    machine TEXT COLLATE "C" NOT NULL,
    incarnation BIGINT NOT NULL,
    device BIGINT,
    inode BIGINT,
    shim_started_at BIGINT,
    agent_pid BIGINT CHECK (agent_pid > 0),
    agent_start_ticks BIGINT,
    agent_boot_id TEXT COLLATE "C",
    agent_started_at BIGINT,
    exit TEXT COLLATE "C" CHECK (exit IS NULL OR exit::json IS NOT NULL),
    proof TEXT COLLATE "C" CHECK (proof IN ('proven', 'swept', 'unproven')),
    CHECK ((device IS NULL) = (inode IS NULL)),
    CHECK (
        (agent_pid IS NULL) = (agent_start_ticks IS NULL)
        AND (agent_pid IS NULL) = (agent_boot_id IS NULL)
        AND (agent_pid IS NULL) = (agent_started_at IS NULL)
    ),
    CHECK (device IS NOT NULL OR (shim_started_at IS NULL AND agent_pid IS NULL))
) WITH (fillfactor = 70);

CREATE INDEX execution_session ON execution (session_id);

CREATE TABLE run (
    id TEXT COLLATE "C" PRIMARY KEY CHECK (id <> ''),
    task_id TEXT COLLATE "C" NOT NULL REFERENCES task (id),
    number BIGINT NOT NULL CHECK (number > 0),
    fence BIGINT NOT NULL UNIQUE CHECK (fence > 0),
    execution_id TEXT COLLATE "C" NOT NULL REFERENCES execution (id),
    cause TEXT COLLATE "C" NOT NULL CHECK (cause IN ('initial', 'retry')),
    state TEXT COLLATE "C" NOT NULL
        CHECK (state IN ('reserved', 'prepared', 'starting', 'running', 'ended', 'held', 'settled')),
    claimed_at BIGINT NOT NULL,
    condemned_kind TEXT COLLATE "C",
    condemned_reason TEXT COLLATE "C",
    stop_told TEXT COLLATE "C" CHECK (stop_told IN ('stop', 'kill')),
    kind TEXT COLLATE "C" CHECK (kind <> ''),
    reason TEXT COLLATE "C" NOT NULL,
    harness_session TEXT COLLATE "C",
    settled_at BIGINT,
    live_id TEXT COLLATE "C" GENERATED ALWAYS AS (CASE WHEN state <> 'settled' THEN id END) STORED,
    settled_id TEXT COLLATE "C" GENERATED ALWAYS AS (CASE WHEN state = 'settled' THEN id END) STORED,
    UNIQUE (task_id, number),
    UNIQUE (live_id, task_id),
    UNIQUE (settled_id, fence),
    CHECK ((state = 'settled') = (settled_at IS NOT NULL)),
    CHECK (state <> 'held' OR kind IS NOT NULL),
    CHECK ((condemned_kind IS NULL) = (condemned_reason IS NULL))
) WITH (fillfactor = 70);

CREATE INDEX run_execution ON run (execution_id);

-- The row is the lock: one live run per task (R8).
CREATE TABLE claim (
    task_id TEXT COLLATE "C" PRIMARY KEY REFERENCES task (id),
    run_id TEXT COLLATE "C" NOT NULL UNIQUE,
    fence BIGINT NOT NULL UNIQUE,
    UNIQUE (run_id, task_id),
    FOREIGN KEY (run_id, task_id) REFERENCES run (live_id, task_id) DEFERRABLE INITIALLY DEFERRED,
    FOREIGN KEY (run_id, task_id) REFERENCES task (run_id, id) DEFERRABLE INITIALLY DEFERRED
) WITH (fillfactor = 70);

ALTER TABLE task ADD FOREIGN KEY (run_id, id) REFERENCES claim (run_id, task_id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE run ADD FOREIGN KEY (live_id) REFERENCES claim (run_id) DEFERRABLE INITIALLY DEFERRED;

CREATE TABLE launch (
    run_id TEXT COLLATE "C" PRIMARY KEY REFERENCES run (id),
    authorisation_id TEXT COLLATE "C" NOT NULL REFERENCES authorisation (id),
    at BIGINT NOT NULL
);

CREATE INDEX launch_authorisation ON launch (authorisation_id);

CREATE TABLE outcome (
    run_id TEXT COLLATE "C" PRIMARY KEY,
    fence BIGINT NOT NULL,
    status TEXT COLLATE "C" NOT NULL CHECK (status IN ('succeeded', 'failed', 'stopped')),
    disposition TEXT COLLATE "C" NOT NULL
        CHECK (disposition IN ('done', 'needs_input', 'retry', 'failed', 'stopped', 'held')),
    kind TEXT COLLATE "C" CHECK (kind <> ''),
    reason TEXT COLLATE "C" NOT NULL,
    at BIGINT NOT NULL,
    proof TEXT COLLATE "C" NOT NULL CHECK (proof IN ('proven', 'swept', 'unproven')),
    wake_at BIGINT,
    said TEXT COLLATE "C" NOT NULL CHECK (said::json IS NOT NULL),
    usage TEXT COLLATE "C" NOT NULL CHECK (usage::json IS NOT NULL),
    exit TEXT COLLATE "C" CHECK (exit IS NULL OR exit::json IS NOT NULL),
    changes TEXT COLLATE "C" CHECK (changes IS NULL OR changes::json IS NOT NULL),
    leftovers TEXT COLLATE "C" NOT NULL CHECK (leftovers::json IS NOT NULL),
    FOREIGN KEY (run_id, fence) REFERENCES run (settled_id, fence) DEFERRABLE INITIALLY DEFERRED,
    CHECK (kind IS NOT NULL OR status = 'succeeded')
);

ALTER TABLE run ADD FOREIGN KEY (settled_id) REFERENCES outcome (run_id) DEFERRABLE INITIALLY DEFERRED;

-- Append-only, in the order of commits. It outlives what it speaks of, so it has no foreign keys.
CREATE TABLE journal (
    seq BIGINT PRIMARY KEY DEFAULT next_number('journal'),
    at BIGINT NOT NULL,
    kind TEXT COLLATE "C" NOT NULL CHECK (kind <> ''),
    task_id TEXT COLLATE "C",
    run_id TEXT COLLATE "C",
    fence BIGINT,
    data TEXT COLLATE "C" NOT NULL CHECK (data::json IS NOT NULL),
    CHECK ((run_id IS NULL) = (fence IS NULL))
);

CREATE INDEX journal_task ON journal (task_id, seq) WHERE task_id IS NOT NULL;

CREATE TABLE outbox (
    id BIGINT PRIMARY KEY DEFAULT next_number('outbox'),
    kind TEXT COLLATE "C" NOT NULL CHECK (kind <> ''),
    payload TEXT COLLATE "C" NOT NULL CHECK (payload::json IS NOT NULL),
    attempts BIGINT NOT NULL CHECK (attempts >= 0),
    not_before BIGINT NOT NULL,
    put_at BIGINT NOT NULL
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02);

CREATE INDEX outbox_due ON outbox (not_before, id);

CREATE TABLE operation (
    id TEXT COLLATE "C" PRIMARY KEY CHECK (id <> ''),
    task_id TEXT COLLATE "C",
    run_id TEXT COLLATE "C",
    fence BIGINT,
    cancelled BIGINT NOT NULL CHECK (cancelled IN (0, 1)),
    at BIGINT NOT NULL,
    CHECK ((task_id IS NULL) = (run_id IS NULL) AND (task_id IS NULL) = (fence IS NULL))
);

-- How many tasks there are in each state, so that nobody counts a million rows. Kept by the triggers below.
CREATE TABLE tally (
    state TEXT COLLATE "C" PRIMARY KEY,
    tasks BIGINT NOT NULL CHECK (tasks >= 0)
) WITH (fillfactor = 50);

INSERT INTO tally (state, tasks) VALUES
    ('queued', 0), ('running', 0), ('needs_input', 0), ('held', 0), ('done', 0), ('failed', 0), ('stopped', 0);

CREATE FUNCTION keep_tally() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP <> 'INSERT' THEN
        UPDATE watchkeeper.tally SET tasks = tasks - 1 WHERE state = OLD.state;
    END IF;
    IF TG_OP <> 'DELETE' THEN
        UPDATE watchkeeper.tally SET tasks = tasks + 1 WHERE state = NEW.state;
    END IF;
    RETURN NULL;
END $$;

CREATE TRIGGER task_added AFTER INSERT ON task FOR EACH ROW EXECUTE FUNCTION keep_tally();
CREATE TRIGGER task_moved AFTER UPDATE OF state ON task
FOR EACH ROW WHEN (NEW.state <> OLD.state) EXECUTE FUNCTION keep_tally();
CREATE TRIGGER task_removed AFTER DELETE ON task FOR EACH ROW EXECUTE FUNCTION keep_tally();

-- A stopped task is never claimed, and only a queued one is.
CREATE FUNCTION claim_of_queued() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (
        SELECT 1 FROM watchkeeper.task WHERE id = NEW.task_id AND state = 'queued' AND stop_at IS NULL
    ) THEN
        RAISE EXCEPTION 'only a queued task that is not stopped is claimed' USING ERRCODE = 'check_violation';
    END IF;
    RETURN NULL;
END $$;

CREATE TRIGGER claim_of_queued AFTER INSERT ON claim FOR EACH ROW EXECUTE FUNCTION claim_of_queued();

CREATE TRIGGER task_identity BEFORE UPDATE OF seq, id, priority, created_at ON task
FOR EACH ROW EXECUTE FUNCTION refuse('what a task is never changes');

CREATE TRIGGER spec_kept BEFORE UPDATE ON spec
FOR EACH ROW EXECUTE FUNCTION refuse('what was asked for never changes');

CREATE TRIGGER run_identity BEFORE UPDATE OF id, task_id, number, fence, execution_id, cause, claimed_at ON run
FOR EACH ROW EXECUTE FUNCTION refuse('what a run is never changes');

CREATE TRIGGER run_settled_is_final BEFORE UPDATE ON run
FOR EACH ROW WHEN (OLD.state = 'settled') EXECUTE FUNCTION refuse('settled is final');

-- The execution's row is written before the run's, so what a state rests on is there when it is reached.
CREATE FUNCTION run_rests_on() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    it watchkeeper.execution%ROWTYPE;
BEGIN
    SELECT * INTO it FROM watchkeeper.execution WHERE id = NEW.execution_id;
    IF NEW.state IN ('prepared', 'starting', 'running') AND it.device IS NULL THEN
        RAISE EXCEPTION 'a prepared run has a directory' USING ERRCODE = 'check_violation';
    END IF;
    IF NEW.state = 'running' AND it.agent_pid IS NULL THEN
        RAISE EXCEPTION 'a running run has an agent' USING ERRCODE = 'check_violation';
    END IF;
    IF NEW.state = 'ended' AND NEW.kind IS NULL AND it.exit IS NULL THEN
        RAISE EXCEPTION 'an ended run has an exit, or a kind instead' USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $$;

CREATE TRIGGER run_rests_on BEFORE UPDATE OF state ON run
FOR EACH ROW WHEN (NEW.state IN ('prepared', 'starting', 'running', 'ended')) EXECUTE FUNCTION run_rests_on();

CREATE TRIGGER execution_identity BEFORE UPDATE OF id, session_id, machine, incarnation ON execution
FOR EACH ROW EXECUTE FUNCTION refuse('what an execution is never changes');

CREATE TRIGGER execution_facts_stay BEFORE UPDATE ON execution
FOR EACH ROW WHEN (
    (OLD.inode IS NOT NULL AND (NEW.inode IS DISTINCT FROM OLD.inode OR NEW.device IS DISTINCT FROM OLD.device))
    OR (OLD.exit IS NOT NULL AND NEW.exit IS NULL)
    OR (OLD.proof IS NOT NULL AND NEW.proof IS NULL)
) EXECUTE FUNCTION refuse('a directory, an exit and a proof, once known, stay');

CREATE TRIGGER outcome_kept BEFORE UPDATE ON outcome
FOR EACH ROW EXECUTE FUNCTION refuse('an outcome is decided once');

CREATE TRIGGER journal_kept BEFORE UPDATE ON journal
FOR EACH ROW EXECUTE FUNCTION refuse('history never changes');

CREATE TRIGGER fence_rises BEFORE UPDATE OF fence ON meta
FOR EACH ROW WHEN (NEW.fence <= OLD.fence) EXECUTE FUNCTION refuse('a fence is never given twice');

CREATE VIEW task_whole AS
SELECT
    task.id, task.state, task.version, task.created_at, task.updated_at, task.runs, task.attempts, task.unlaunched,
    task.run_id, task.wake_at, task.stop_how, task.stop_by, task.stop_at, task.stop_grace_s, task.environment_id,
    task.reason, task.kind, task.ended_at, spec.body
FROM task JOIN spec ON spec.task_id = task.id;

CREATE VIEW run_whole AS
SELECT
    run.id, run.task_id, run.number, run.fence, run.execution_id, run.cause, run.state,
    execution.machine, execution.incarnation, run.claimed_at, execution.device, execution.inode,
    execution.shim_started_at, execution.agent_pid, execution.agent_start_ticks, execution.agent_boot_id,
    execution.agent_started_at, execution.exit, run.condemned_kind, run.condemned_reason, run.stop_told,
    execution.proof, run.kind, run.reason, run.harness_session, run.settled_at
FROM run JOIN execution ON execution.id = run.execution_id;
