BEGIN TRANSACTION;
CREATE TABLE authorisation (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE CHECK (id <> ''),
    task_id TEXT NOT NULL REFERENCES task (id),
    kind TEXT NOT NULL CHECK (kind IN ('person', 'grant', 'inherited')),
    by TEXT NOT NULL,
    says TEXT NOT NULL,
    at INTEGER NOT NULL
) STRICT;
INSERT INTO "authorisation" VALUES(1,'a-runs','runs','person','ada','claude in /tmp',1772366400123456);
INSERT INTO "authorisation" VALUES(2,'a-done','done','person','ada','claude in /tmp',1772366400123456);
INSERT INTO "authorisation" VALUES(3,'a-retries','retries','person','ada','claude in /tmp',1772366400123456);
INSERT INTO "authorisation" VALUES(4,'a-stopped','stopped','person','ada','claude in /tmp',1772366400123456);
INSERT INTO "authorisation" VALUES(5,'a-held','held','person','ada','claude in /tmp',1772366400123456);
INSERT INTO "authorisation" VALUES(6,'a-waits','waits','person','ada','claude in /tmp',1772366400123456);
INSERT INTO "authorisation" VALUES(7,'a-later','later','person','ada','claude in /tmp',1772366400123456);
INSERT INTO "authorisation" VALUES(8,'a-quoted','quoted','person','ada','claude in /tmp',1772366400123456);
CREATE TABLE claim (
    task_id TEXT PRIMARY KEY REFERENCES task (id),
    run_id TEXT NOT NULL UNIQUE,
    fence INTEGER NOT NULL UNIQUE,
    UNIQUE (run_id, task_id),
    FOREIGN KEY (run_id, task_id) REFERENCES run (live_id, task_id) DEFERRABLE INITIALLY DEFERRED,
    FOREIGN KEY (run_id, task_id) REFERENCES task (run_id, id) DEFERRABLE INITIALLY DEFERRED
) STRICT, WITHOUT ROWID;
INSERT INTO "claim" VALUES('held','held.1',5);
INSERT INTO "claim" VALUES('runs','runs.1',1);
INSERT INTO "claim" VALUES('stopped','stopped.1',4);
CREATE TABLE execution (
    id TEXT PRIMARY KEY CHECK (id <> ''),
    session_id TEXT NOT NULL REFERENCES session (id),
    machine TEXT NOT NULL,
    incarnation INTEGER NOT NULL,
    device INTEGER,
    inode INTEGER,
    shim_started_at INTEGER,
    agent_pid INTEGER CHECK (agent_pid > 0),
    agent_start_ticks INTEGER,
    agent_boot_id TEXT,
    agent_started_at INTEGER,
    exit TEXT CHECK (json_valid(exit)),
    proof TEXT CHECK (proof IN ('proven', 'swept', 'unproven')),
    CHECK ((device IS NULL) = (inode IS NULL)),
    CHECK (
        (agent_pid IS NULL) = (agent_start_ticks IS NULL)
        AND (agent_pid IS NULL) = (agent_boot_id IS NULL)
        AND (agent_pid IS NULL) = (agent_started_at IS NULL)
    ),
    CHECK (device IS NOT NULL OR (shim_started_at IS NULL AND agent_pid IS NULL))
) STRICT;
INSERT INTO "execution" VALUES('x-runs-1','runs.s1','m1',1,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "execution" VALUES('x-done-1','done.s1','m1',1,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'proven');
INSERT INTO "execution" VALUES('x-retries-1','retries.s1','m1',1,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'proven');
INSERT INTO "execution" VALUES('x-stopped-1','stopped.s1','m1',1,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "execution" VALUES('x-held-1','held.s1','m1',1,1,2,NULL,NULL,NULL,NULL,NULL,NULL,NULL);
CREATE TABLE journal (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    at INTEGER NOT NULL,
    kind TEXT NOT NULL CHECK (kind <> ''),
    task_id TEXT,
    run_id TEXT,
    fence INTEGER,
    data TEXT NOT NULL CHECK (json_valid(data)),
    CHECK ((run_id IS NULL) = (fence IS NULL))
) STRICT;
INSERT INTO "journal" VALUES(1,1772366400123456,'task.added','runs',NULL,NULL,'{"title":"Fix"}');
INSERT INTO "journal" VALUES(2,1772366400123456,'task.added','done',NULL,NULL,'{"title":"Fix"}');
INSERT INTO "journal" VALUES(3,1772366400123456,'task.added','retries',NULL,NULL,'{"title":"Fix"}');
INSERT INTO "journal" VALUES(4,1772366400123456,'task.added','stopped',NULL,NULL,'{"title":"Fix"}');
INSERT INTO "journal" VALUES(5,1772366400123456,'task.added','held',NULL,NULL,'{"title":"Fix"}');
INSERT INTO "journal" VALUES(6,1772366400123456,'task.added','waits',NULL,NULL,'{"title":"Fix"}');
INSERT INTO "journal" VALUES(7,1772366400123456,'task.added','later',NULL,NULL,'{"title":"Fix"}');
INSERT INTO "journal" VALUES(8,1772366400123456,'task.added','quoted',NULL,NULL,'{"title":"Zo\u00eb''s \"task\" \u2014 ok"}');
CREATE TABLE launch (
    run_id TEXT PRIMARY KEY REFERENCES run (id),
    authorisation_id TEXT NOT NULL REFERENCES authorisation (id),
    at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE machine (
    id TEXT PRIMARY KEY CHECK (id <> ''),
    incarnation INTEGER NOT NULL CHECK (incarnation > 0),
    boot_id TEXT NOT NULL,
    started_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO "machine" VALUES('m1',1,'boot',1772366400123456);
CREATE TABLE meta (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    database_id TEXT NOT NULL CHECK (database_id <> ''),
    fence INTEGER NOT NULL CHECK (fence >= 0)
) STRICT;
INSERT INTO "meta" VALUES(1,'5b7418bbfb0e886ee3fa4e9b460de2a3',5);
CREATE TABLE migration (
    number INTEGER PRIMARY KEY CHECK (number > 0),
    name TEXT NOT NULL UNIQUE,
    sha256 TEXT NOT NULL CHECK (length(sha256) = 64),
    at INTEGER NOT NULL
) STRICT;
INSERT INTO "migration" VALUES(1,'0001_first','dcb622ceb41eecbf53dd065f93a138625ace2e9b676fff3730c3caee39157e5f',1795983339124000);
CREATE TABLE operation (
    id TEXT PRIMARY KEY CHECK (id <> ''),
    task_id TEXT,
    run_id TEXT,
    fence INTEGER,
    cancelled INTEGER NOT NULL CHECK (cancelled IN (0, 1)),
    at INTEGER NOT NULL,
    CHECK ((task_id IS NULL) = (run_id IS NULL) AND (task_id IS NULL) = (fence IS NULL))
) STRICT, WITHOUT ROWID;
INSERT INTO "operation" VALUES('op-done','done','done.1',2,0,1772366400123456);
INSERT INTO "operation" VALUES('op-held','held','held.1',5,0,1772366400123456);
INSERT INTO "operation" VALUES('op-retries','retries','retries.1',3,0,1772366400123456);
INSERT INTO "operation" VALUES('op-runs','runs','runs.1',1,0,1772366400123456);
INSERT INTO "operation" VALUES('op-stopped','stopped','stopped.1',4,0,1772366400123456);
CREATE TABLE outbox (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    kind TEXT NOT NULL CHECK (kind <> ''),
    payload TEXT NOT NULL CHECK (json_valid(payload)),
    attempts INTEGER NOT NULL CHECK (attempts >= 0),
    not_before INTEGER NOT NULL,
    put_at INTEGER NOT NULL
) STRICT;
INSERT INTO "outbox" VALUES(1,'forget_environment','{"environment_id":"env-done"}',0,1772366400123456,1772366400123456);
CREATE TABLE outcome (
    run_id TEXT PRIMARY KEY,
    fence INTEGER NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('succeeded', 'failed', 'stopped')),
    disposition TEXT NOT NULL CHECK (disposition IN ('done', 'needs_input', 'retry', 'failed', 'stopped', 'held')),
    kind TEXT CHECK (kind <> ''),
    reason TEXT NOT NULL,
    at INTEGER NOT NULL,
    proof TEXT NOT NULL CHECK (proof IN ('proven', 'swept', 'unproven')),
    wake_at INTEGER,
    said TEXT NOT NULL CHECK (json_valid(said)),
    usage TEXT NOT NULL CHECK (json_valid(usage)),
    exit TEXT CHECK (json_valid(exit)),
    changes TEXT CHECK (json_valid(changes)),
    leftovers TEXT NOT NULL CHECK (json_valid(leftovers)),
    FOREIGN KEY (run_id, fence) REFERENCES run (settled_id, fence) DEFERRABLE INITIALLY DEFERRED,
    CHECK (kind IS NOT NULL OR status = 'succeeded')
) STRICT;
INSERT INTO "outcome" VALUES('done.1',2,'succeeded','done',NULL,'Done.',1772366400123456,'proven',NULL,'{"text":"","harness_session":null,"model":null,"turns":null,"tool_calls":0}','{"input_tokens":null,"output_tokens":null,"cached_tokens":null,"cost_usd":null}',NULL,NULL,'[]');
INSERT INTO "outcome" VALUES('retries.1',3,'succeeded','retry',NULL,'Done.',1772366400123456,'proven',1772366460123456,'{"text":"","harness_session":null,"model":null,"turns":null,"tool_calls":0}','{"input_tokens":null,"output_tokens":null,"cached_tokens":null,"cost_usd":null}',NULL,NULL,'[]');
CREATE TABLE run (
    id TEXT PRIMARY KEY CHECK (id <> ''),
    task_id TEXT NOT NULL REFERENCES task (id),
    number INTEGER NOT NULL CHECK (number > 0),
    fence INTEGER NOT NULL UNIQUE CHECK (fence > 0),
    execution_id TEXT NOT NULL REFERENCES execution (id),
    cause TEXT NOT NULL CHECK (cause IN ('initial', 'retry')),
    state TEXT NOT NULL
        CHECK (state IN ('reserved', 'prepared', 'starting', 'running', 'ended', 'held', 'settled')),
    claimed_at INTEGER NOT NULL,
    condemned_kind TEXT,
    condemned_reason TEXT,
    stop_told TEXT CHECK (stop_told IN ('stop', 'kill')),
    kind TEXT CHECK (kind <> ''),
    reason TEXT NOT NULL,
    harness_session TEXT,
    settled_at INTEGER,
    live_id TEXT GENERATED ALWAYS AS (CASE WHEN state <> 'settled' THEN id END) STORED
        REFERENCES claim (run_id) DEFERRABLE INITIALLY DEFERRED,
    settled_id TEXT GENERATED ALWAYS AS (CASE WHEN state = 'settled' THEN id END) STORED
        REFERENCES outcome (run_id) DEFERRABLE INITIALLY DEFERRED,
    UNIQUE (task_id, number),
    UNIQUE (live_id, task_id),
    UNIQUE (settled_id, fence),
    CHECK ((state = 'settled') = (settled_at IS NOT NULL)),
    CHECK (state <> 'held' OR kind IS NOT NULL),
    CHECK ((condemned_kind IS NULL) = (condemned_reason IS NULL))
) STRICT;
INSERT INTO "run" VALUES('runs.1','runs',1,1,'x-runs-1','initial','reserved',1772366400123456,NULL,NULL,NULL,NULL,'',NULL,NULL);
INSERT INTO "run" VALUES('done.1','done',1,2,'x-done-1','initial','settled',1772366400123456,NULL,NULL,NULL,'never_launched','',NULL,1772366400123456);
INSERT INTO "run" VALUES('retries.1','retries',1,3,'x-retries-1','initial','settled',1772366400123456,NULL,NULL,NULL,'never_launched','',NULL,1772366400123456);
INSERT INTO "run" VALUES('stopped.1','stopped',1,4,'x-stopped-1','initial','reserved',1772366400123456,NULL,NULL,NULL,NULL,'',NULL,NULL);
INSERT INTO "run" VALUES('held.1','held',1,5,'x-held-1','initial','held',1772366400123456,NULL,NULL,NULL,'unknown','The execution directory is missing.',NULL,NULL);
CREATE TABLE session (
    id TEXT PRIMARY KEY CHECK (id <> ''),
    task_id TEXT NOT NULL REFERENCES task (id),
    harness TEXT NOT NULL,
    harness_session TEXT,
    created_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO "session" VALUES('done.s1','done','command',NULL,1772366400123456);
INSERT INTO "session" VALUES('held.s1','held','command',NULL,1772366400123456);
INSERT INTO "session" VALUES('retries.s1','retries','command',NULL,1772366400123456);
INSERT INTO "session" VALUES('runs.s1','runs','command',NULL,1772366400123456);
INSERT INTO "session" VALUES('stopped.s1','stopped','command',NULL,1772366400123456);
CREATE TABLE spec (
    task_id TEXT PRIMARY KEY REFERENCES task (id),
    body TEXT NOT NULL CHECK (json_valid(body))
) STRICT;
INSERT INTO "spec" VALUES('runs','{"prompt":"Fix it.","title":"Fix","harness":"command","model":null,"cwd":"/tmp","argv":["true"],"environment_names":[],"deadline_s":null,"max_attempts":3,"on_lost":"hold","leftovers":"kill","priority":9}');
INSERT INTO "spec" VALUES('done','{"prompt":"Fix it.","title":"Fix","harness":"command","model":null,"cwd":"/tmp","argv":["true"],"environment_names":[],"deadline_s":null,"max_attempts":3,"on_lost":"hold","leftovers":"kill","priority":9}');
INSERT INTO "spec" VALUES('retries','{"prompt":"Fix it.","title":"Fix","harness":"command","model":null,"cwd":"/tmp","argv":["true"],"environment_names":[],"deadline_s":null,"max_attempts":3,"on_lost":"hold","leftovers":"kill","priority":9}');
INSERT INTO "spec" VALUES('stopped','{"prompt":"Fix it.","title":"Fix","harness":"command","model":null,"cwd":"/tmp","argv":["true"],"environment_names":[],"deadline_s":null,"max_attempts":3,"on_lost":"hold","leftovers":"kill","priority":9}');
INSERT INTO "spec" VALUES('held','{"prompt":"Fix it.","title":"Fix","harness":"command","model":null,"cwd":"/tmp","argv":["true"],"environment_names":[],"deadline_s":null,"max_attempts":3,"on_lost":"hold","leftovers":"kill","priority":9}');
INSERT INTO "spec" VALUES('waits','{"prompt":"Fix it.","title":"Fix","harness":"claude","model":null,"cwd":"/tmp","argv":[],"environment_names":[],"deadline_s":null,"max_attempts":3,"on_lost":"hold","leftovers":"kill","priority":2}');
INSERT INTO "spec" VALUES('later','{"prompt":"Fix it.","title":"Fix","harness":"command","model":null,"cwd":"/tmp","argv":["true"],"environment_names":[],"deadline_s":null,"max_attempts":3,"on_lost":"hold","leftovers":"kill","priority":0}');
INSERT INTO "spec" VALUES('quoted','{"prompt":"Fix it.","title":"Zo\u00eb''s \"task\" \u2014 ok","harness":"command","model":null,"cwd":"/tmp","argv":["true"],"environment_names":[],"deadline_s":null,"max_attempts":3,"on_lost":"hold","leftovers":"kill","priority":0}');
CREATE TABLE tally (
    state TEXT PRIMARY KEY,
    tasks INTEGER NOT NULL CHECK (tasks >= 0)
) STRICT, WITHOUT ROWID;
INSERT INTO "tally" VALUES('done',1);
INSERT INTO "tally" VALUES('failed',0);
INSERT INTO "tally" VALUES('held',1);
INSERT INTO "tally" VALUES('needs_input',0);
INSERT INTO "tally" VALUES('queued',4);
INSERT INTO "tally" VALUES('running',2);
INSERT INTO "tally" VALUES('stopped',0);
CREATE TABLE task (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE CHECK (id <> ''),
    state TEXT NOT NULL
        CHECK (state IN ('queued', 'running', 'needs_input', 'held', 'done', 'failed', 'stopped')),
    version INTEGER NOT NULL CHECK (version >= 0),
    priority INTEGER NOT NULL,
    ready INTEGER NOT NULL CHECK (ready IN (0, 1)),
    wake_at INTEGER,
    runs INTEGER NOT NULL CHECK (runs >= 0),
    attempts INTEGER NOT NULL CHECK (attempts >= 0),
    unlaunched INTEGER NOT NULL CHECK (unlaunched >= 0),
    run_id TEXT,
    stop_how TEXT CHECK (stop_how IN ('stop', 'kill')),
    stop_by TEXT,
    stop_at INTEGER,
    stop_grace_s REAL CHECK (stop_grace_s >= 0),
    environment_id TEXT NOT NULL,
    reason TEXT NOT NULL,
    kind TEXT CHECK (kind <> ''),
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    ended_at INTEGER,
    UNIQUE (run_id, id),
    FOREIGN KEY (run_id, id) REFERENCES claim (run_id, task_id) DEFERRABLE INITIALLY DEFERRED,
    CHECK (state <> 'running' OR run_id IS NOT NULL),
    CHECK (run_id IS NULL OR state IN ('running', 'held')),
    CHECK ((state IN ('done', 'failed', 'stopped')) = (ended_at IS NOT NULL)),
    CHECK (wake_at IS NULL OR state = 'queued'),
    CHECK (ready = 1 OR wake_at IS NOT NULL),
    CHECK ((stop_how IS NULL) = (stop_at IS NULL) AND (stop_how IS NULL) = (stop_by IS NULL)),
    CHECK (stop_grace_s IS NULL OR stop_how IS NOT NULL)
) STRICT;
INSERT INTO "task" VALUES(1,'runs','running',1,9,1,NULL,1,0,0,'runs.1',NULL,NULL,NULL,NULL,'env-runs','',NULL,1772366400123456,1772366400123456,NULL);
INSERT INTO "task" VALUES(2,'done','done',2,9,1,NULL,1,0,0,NULL,NULL,NULL,NULL,NULL,'env-done','',NULL,1772366400123456,1772366400123456,1772366400123456);
INSERT INTO "task" VALUES(3,'retries','queued',2,9,0,1772366460123456,1,0,0,NULL,NULL,NULL,NULL,NULL,'env-retries','',NULL,1772366400123456,1772366400123456,NULL);
INSERT INTO "task" VALUES(4,'stopped','running',2,9,1,NULL,1,0,0,'stopped.1','stop','ada',1772366400123456,NULL,'env-stopped','',NULL,1772366400123456,1772366400123456,NULL);
INSERT INTO "task" VALUES(5,'held','held',2,9,1,NULL,1,0,0,'held.1',NULL,NULL,NULL,NULL,'env-held','The execution directory is missing.','unknown',1772366400123456,1772366400123456,NULL);
INSERT INTO "task" VALUES(6,'waits','queued',0,2,1,NULL,0,0,0,NULL,NULL,NULL,NULL,NULL,'env-waits','',NULL,1772366400123456,1772366400123456,NULL);
INSERT INTO "task" VALUES(7,'later','queued',0,0,0,1772370000123456,0,0,0,NULL,NULL,NULL,NULL,NULL,'env-later','',NULL,1772366400123456,1772366400123456,NULL);
INSERT INTO "task" VALUES(8,'quoted','queued',0,0,1,NULL,0,0,0,NULL,NULL,NULL,NULL,NULL,'env-quoted','',NULL,1772366400123456,1772366400123456,NULL);
CREATE INDEX task_ready ON task (priority DESC, seq) WHERE state = 'queued' AND stop_at IS NULL AND ready = 1;
CREATE INDEX task_waiting ON task (wake_at, priority, seq) WHERE state = 'queued' AND stop_at IS NULL AND ready = 0;
CREATE INDEX task_state ON task (state, seq);
CREATE INDEX task_environment ON task (environment_id) WHERE ended_at IS NULL;
CREATE INDEX authorisation_task ON authorisation (task_id, seq);
CREATE INDEX session_task ON session (task_id);
CREATE INDEX execution_session ON execution (session_id);
CREATE INDEX run_execution ON run (execution_id);
CREATE INDEX launch_authorisation ON launch (authorisation_id);
CREATE INDEX journal_task ON journal (task_id, seq) WHERE task_id IS NOT NULL;
CREATE INDEX outbox_due ON outbox (not_before, id);
CREATE TRIGGER task_added AFTER INSERT ON task BEGIN
    UPDATE tally SET tasks = tasks + 1 WHERE state = NEW.state;
END;
CREATE TRIGGER task_moved AFTER UPDATE OF state ON task WHEN NEW.state <> OLD.state BEGIN
    UPDATE tally SET tasks = tasks - 1 WHERE state = OLD.state;
    UPDATE tally SET tasks = tasks + 1 WHERE state = NEW.state;
END;
CREATE TRIGGER task_removed AFTER DELETE ON task BEGIN
    UPDATE tally SET tasks = tasks - 1 WHERE state = OLD.state;
END;
CREATE TRIGGER claim_of_queued AFTER INSERT ON claim
WHEN NOT EXISTS (SELECT 1 FROM task WHERE id = NEW.task_id AND state = 'queued' AND stop_at IS NULL) BEGIN
    SELECT raise(ABORT, 'only a queued task that is not stopped is claimed');
END;
CREATE TRIGGER task_identity BEFORE UPDATE OF seq, id, priority, created_at ON task BEGIN
    SELECT raise(ABORT, 'what a task is never changes');
END;
CREATE TRIGGER spec_kept BEFORE UPDATE ON spec BEGIN
    SELECT raise(ABORT, 'what was asked for never changes');
END;
CREATE TRIGGER run_identity
BEFORE UPDATE OF id, task_id, number, fence, execution_id, cause, claimed_at ON run BEGIN
    SELECT raise(ABORT, 'what a run is never changes');
END;
CREATE TRIGGER run_settled_is_final BEFORE UPDATE ON run WHEN OLD.state = 'settled' BEGIN
    SELECT raise(ABORT, 'settled is final');
END;
CREATE TRIGGER run_prepared BEFORE UPDATE OF state ON run
WHEN NEW.state IN ('prepared', 'starting', 'running')
    AND (SELECT device FROM execution WHERE id = NEW.execution_id) IS NULL BEGIN
    SELECT raise(ABORT, 'a prepared run has a directory');
END;
CREATE TRIGGER run_running BEFORE UPDATE OF state ON run
WHEN NEW.state = 'running' AND (SELECT agent_pid FROM execution WHERE id = NEW.execution_id) IS NULL BEGIN
    SELECT raise(ABORT, 'a running run has an agent');
END;
CREATE TRIGGER run_ended BEFORE UPDATE OF state ON run
WHEN NEW.state = 'ended' AND NEW.kind IS NULL
    AND (SELECT exit FROM execution WHERE id = NEW.execution_id) IS NULL BEGIN
    SELECT raise(ABORT, 'an ended run has an exit, or a kind instead');
END;
CREATE TRIGGER execution_identity BEFORE UPDATE OF id, session_id, machine, incarnation ON execution BEGIN
    SELECT raise(ABORT, 'what an execution is never changes');
END;
CREATE TRIGGER execution_facts_stay BEFORE UPDATE ON execution
WHEN (OLD.inode IS NOT NULL AND (NEW.inode IS NOT OLD.inode OR NEW.device IS NOT OLD.device))
    OR (OLD.exit IS NOT NULL AND NEW.exit IS NULL)
    OR (OLD.proof IS NOT NULL AND NEW.proof IS NULL) BEGIN
    SELECT raise(ABORT, 'a directory, an exit and a proof, once known, stay');
END;
CREATE TRIGGER outcome_kept BEFORE UPDATE ON outcome BEGIN
    SELECT raise(ABORT, 'an outcome is decided once');
END;
CREATE TRIGGER journal_kept BEFORE UPDATE ON journal BEGIN
    SELECT raise(ABORT, 'history never changes');
END;
CREATE TRIGGER fence_rises BEFORE UPDATE OF fence ON meta WHEN NEW.fence <= OLD.fence BEGIN
    SELECT raise(ABORT, 'a fence is never given twice');
END;
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
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('task',8);
INSERT INTO "sqlite_sequence" VALUES('authorisation',8);
INSERT INTO "sqlite_sequence" VALUES('journal',8);
INSERT INTO "sqlite_sequence" VALUES('outbox',1);
COMMIT;
PRAGMA user_version=1;
PRAGMA application_id=1464550466;
