CREATE TABLE migration (
    number INTEGER PRIMARY KEY CHECK (number > 0),
    name TEXT NOT NULL UNIQUE,
    sha256 TEXT NOT NULL CHECK (length(sha256) = 64),
    at INTEGER NOT NULL
) STRICT;

CREATE TABLE meta (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    database_id TEXT NOT NULL CHECK (database_id <> ''),
    fence INTEGER NOT NULL CHECK (fence >= 0)
, forgotten INTEGER NOT NULL DEFAULT 0 CHECK (forgotten >= 0)) STRICT;

CREATE TABLE machine (
    id TEXT PRIMARY KEY CHECK (id <> ''),
    incarnation INTEGER NOT NULL CHECK (incarnation > 0),
    boot_id TEXT NOT NULL,
    started_at INTEGER NOT NULL
, name TEXT NOT NULL DEFAULT '', holder TEXT NOT NULL DEFAULT '', version TEXT NOT NULL DEFAULT '', lease_until INTEGER) STRICT, WITHOUT ROWID;

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
    ended_at INTEGER, lane INTEGER NOT NULL DEFAULT 0, checkout TEXT CHECK (checkout <> ''), unmet INTEGER NOT NULL DEFAULT 0 CHECK (unmet >= 0), blocked INTEGER NOT NULL DEFAULT 0 CHECK (
    blocked = 0
    OR (blocked = 1 AND checkout IS NOT NULL AND state = 'queued' AND stop_at IS NULL AND ready = 1 AND unmet = 0)
), wake_for TEXT CHECK (wake_for IN ('not before', 'retry at', 'quota until')), pinned_at INTEGER, environment_machine TEXT NOT NULL DEFAULT '', seen_at INTEGER, service_failures INTEGER NOT NULL DEFAULT 0 CHECK (service_failures >= 0), key TEXT CHECK (key <> ''), key_digest TEXT CHECK ((key IS NULL) = (key_digest IS NULL)),
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

CREATE INDEX task_waiting ON task (wake_at, priority, seq) WHERE state = 'queued' AND stop_at IS NULL AND ready = 0;

CREATE INDEX task_state ON task (state, seq);

CREATE INDEX task_environment ON task (environment_id) WHERE ended_at IS NULL;

CREATE TABLE spec (
    task_id TEXT PRIMARY KEY REFERENCES task (id),
    body TEXT NOT NULL CHECK (json_valid(body))
) STRICT;

CREATE TABLE authorisation (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE CHECK (id <> ''),
    task_id TEXT NOT NULL REFERENCES task (id),
    kind TEXT NOT NULL CHECK (kind IN ('person', 'grant', 'inherited')),
    by TEXT NOT NULL,
    detail TEXT NOT NULL,
    at INTEGER NOT NULL
, profile TEXT CHECK (profile IS NULL OR json_valid(profile)), fingerprint TEXT CHECK (fingerprint <> ''), directory TEXT, place TEXT CHECK (place IS NULL OR json_valid(place))) STRICT;

CREATE INDEX authorisation_task ON authorisation (task_id, seq);

CREATE TABLE session (
    id TEXT PRIMARY KEY CHECK (id <> ''),
    task_id TEXT NOT NULL REFERENCES task (id),
    harness TEXT NOT NULL,
    harness_session TEXT,
    created_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX session_task ON session (task_id);

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

CREATE INDEX execution_session ON execution (session_id);

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
    early_fail_kind TEXT,
    early_fail_reason TEXT,
    stop_told TEXT CHECK (stop_told IN ('stop', 'kill')),
    kind TEXT CHECK (kind <> ''),
    reason TEXT NOT NULL,
    harness_session TEXT,
    settled_at INTEGER,
    live_id TEXT GENERATED ALWAYS AS (CASE WHEN state <> 'settled' THEN id END) STORED
        REFERENCES claim (run_id) DEFERRABLE INITIALLY DEFERRED,
    settled_id TEXT GENERATED ALWAYS AS (CASE WHEN state = 'settled' THEN id END) STORED
        REFERENCES outcome (run_id) DEFERRABLE INITIALLY DEFERRED, place TEXT CHECK (place <> ''), answered_at INTEGER, stalled_since INTEGER, stop_failed TEXT CHECK (stop_failed <> ''),
    UNIQUE (task_id, number),
    UNIQUE (live_id, task_id),
    UNIQUE (settled_id, fence),
    CHECK ((state = 'settled') = (settled_at IS NOT NULL)),
    CHECK (state <> 'held' OR kind IS NOT NULL),
    CHECK ((early_fail_kind IS NULL) = (early_fail_reason IS NULL))
) STRICT;

CREATE INDEX run_execution ON run (execution_id);

CREATE TABLE claim (
    task_id TEXT PRIMARY KEY REFERENCES task (id),
    run_id TEXT NOT NULL UNIQUE,
    fence INTEGER NOT NULL UNIQUE, lane INTEGER NOT NULL DEFAULT 0, machine TEXT NOT NULL DEFAULT '', checkout TEXT,
    UNIQUE (run_id, task_id),
    FOREIGN KEY (run_id, task_id) REFERENCES run (live_id, task_id) DEFERRABLE INITIALLY DEFERRED,
    FOREIGN KEY (run_id, task_id) REFERENCES task (run_id, id) DEFERRABLE INITIALLY DEFERRED
) STRICT, WITHOUT ROWID;

CREATE TABLE launch (
    run_id TEXT PRIMARY KEY REFERENCES run (id),
    authorisation_id TEXT NOT NULL REFERENCES authorisation (id),
    at INTEGER NOT NULL
, version TEXT) STRICT, WITHOUT ROWID;

CREATE INDEX launch_authorisation ON launch (authorisation_id);

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

CREATE INDEX journal_task ON journal (task_id, seq) WHERE task_id IS NOT NULL;

CREATE TABLE outbox (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    kind TEXT NOT NULL CHECK (kind <> ''),
    payload TEXT NOT NULL CHECK (json_valid(payload)),
    attempts INTEGER NOT NULL CHECK (attempts >= 0),
    not_before INTEGER NOT NULL,
    put_at INTEGER NOT NULL
, machine TEXT NOT NULL DEFAULT '') STRICT;

CREATE INDEX outbox_due ON outbox (not_before, id);

CREATE TABLE operation (
    id TEXT PRIMARY KEY CHECK (id <> ''),
    task_id TEXT,
    run_id TEXT,
    fence INTEGER,
    cancelled INTEGER NOT NULL CHECK (cancelled IN (0, 1)),
    at INTEGER NOT NULL,
    CHECK ((task_id IS NULL) = (run_id IS NULL) AND (task_id IS NULL) = (fence IS NULL))
) STRICT, WITHOUT ROWID;

CREATE TABLE tally (
    state TEXT PRIMARY KEY,
    tasks INTEGER NOT NULL CHECK (tasks >= 0)
) STRICT, WITHOUT ROWID;

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

CREATE TABLE lane (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    machine TEXT NOT NULL,
    harness TEXT NOT NULL CHECK (harness <> ''),
    account TEXT NOT NULL CHECK (account <> ''),
    project TEXT NOT NULL,
    UNIQUE (machine, harness, account, project)
) STRICT;

CREATE INDEX task_ready ON task (lane, priority DESC, seq)
    WHERE state = 'queued' AND stop_at IS NULL AND ready = 1 AND unmet = 0 AND blocked = 0;

CREATE INDEX task_checkout ON task (checkout, blocked, lane, priority DESC, seq)
    WHERE checkout IS NOT NULL AND state = 'queued' AND stop_at IS NULL AND ready = 1 AND unmet = 0;

CREATE INDEX task_pinned ON task (pinned_at) WHERE pinned_at IS NOT NULL;

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
    detail TEXT NOT NULL,
    mark TEXT NOT NULL,
    quota_until INTEGER,
    quota_at INTEGER, trouble TEXT CHECK (trouble IN ('overloaded', 'network')), trouble_detail TEXT NOT NULL DEFAULT '', trouble_since INTEGER CHECK ((trouble IS NULL) = (trouble_since IS NULL)), trouble_at INTEGER CHECK ((trouble IS NULL) = (trouble_at IS NULL)), probes INTEGER NOT NULL DEFAULT 0 CHECK (probes >= 0), probe_at INTEGER CHECK ((trouble IS NULL) = (probe_at IS NULL)), probe_run TEXT CHECK (probe_run IS NULL OR trouble IS NOT NULL OR quota_until IS NOT NULL), answered_at INTEGER,
    PRIMARY KEY (account, machine)
) STRICT, WITHOUT ROWID;

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
    detail TEXT NOT NULL,
    at INTEGER NOT NULL,
    PRIMARY KEY (harness, machine)
) STRICT, WITHOUT ROWID;

CREATE INDEX operation_at ON operation (at);

CREATE TRIGGER task_identity BEFORE UPDATE OF seq, id, created_at ON task BEGIN
    SELECT raise(ABORT, 'what a task is never changes');
END;

CREATE TRIGGER claim_of_queued AFTER INSERT ON claim
WHEN NOT EXISTS (
    SELECT 1 FROM task
    WHERE id = NEW.task_id AND state = 'queued' AND stop_at IS NULL AND unmet = 0 AND checkout IS NEW.checkout
) BEGIN
    SELECT raise(ABORT, 'only a queued task that is not stopped and waits for no other is claimed');
END;

CREATE INDEX authorisation_directory ON authorisation (directory, seq) WHERE directory IS NOT NULL;

CREATE TRIGGER authorisation_kept BEFORE UPDATE ON authorisation BEGIN
    SELECT raise(ABORT, 'what was allowed never changes');
END;

CREATE INDEX task_unseen ON task (seq) WHERE state = 'failed' AND seen_at IS NULL;

CREATE INDEX task_unmet ON task (seq) WHERE state = 'queued' AND unmet > 0;

CREATE INDEX run_worked ON run (settled_at, place) WHERE settled_at IS NOT NULL AND place IS NOT NULL;

CREATE VIEW task_whole AS
SELECT
    task.id, task.state, task.version, task.created_at, task.updated_at, task.runs, task.attempts, task.unlaunched,
    task.run_id, task.wake_at, task.wake_for, task.stop_how, task.stop_by, task.stop_at, task.stop_grace_s,
    task.environment_id, task.environment_machine, task.reason, task.kind, task.ended_at, task.pinned_at, task.seen_at,
    task.service_failures, spec.body
FROM task JOIN spec ON spec.task_id = task.id;

CREATE UNIQUE INDEX task_key ON task (key) WHERE key IS NOT NULL;

CREATE TABLE damage (
    place TEXT NOT NULL CHECK (place <> ''),
    id TEXT NOT NULL,
    task_id TEXT,
    reason TEXT NOT NULL CHECK (reason <> ''),
    at INTEGER NOT NULL,
    PRIMARY KEY (place, id)
) STRICT, WITHOUT ROWID;

CREATE INDEX damage_task ON damage (task_id) WHERE task_id IS NOT NULL;

CREATE TABLE removed_task (
    id TEXT NOT NULL PRIMARY KEY CHECK (id <> '')
) STRICT, WITHOUT ROWID;

CREATE TRIGGER task_moved AFTER UPDATE OF state ON task WHEN NEW.state <> OLD.state BEGIN
    UPDATE tally SET tasks = max(tasks - 1, 0) WHERE state = OLD.state;
    UPDATE tally SET tasks = max(tasks, 0) + 1 WHERE state = NEW.state;
END;

CREATE TRIGGER task_removed AFTER DELETE ON task BEGIN
    UPDATE tally SET tasks = max(tasks - 1, 0) WHERE state = OLD.state;
END;

CREATE TRIGGER task_added AFTER INSERT ON task BEGIN
    UPDATE tally SET tasks = max(tasks, 0) + 1 WHERE state = NEW.state;
END;

CREATE VIEW run_whole AS
SELECT
    run.id, run.task_id, run.number, run.fence, run.execution_id, run.cause, run.state,
    execution.machine, execution.incarnation, run.claimed_at, execution.device, execution.inode,
    execution.shim_started_at, execution.agent_pid, execution.agent_start_ticks, execution.agent_boot_id,
    execution.agent_started_at, execution.exit, run.early_fail_kind, run.early_fail_reason, run.stop_told,
    execution.proof, run.kind, run.reason, run.harness_session, run.settled_at, run.answered_at, run.stalled_since,
    run.stop_failed
FROM run JOIN execution ON execution.id = run.execution_id;

CREATE INDEX spec_worktree ON spec (task_id) WHERE body LIKE '%"worktree":{%';

CREATE TABLE changes_before_checks (
    run_id TEXT PRIMARY KEY REFERENCES run (id),
    changes TEXT CHECK (json_valid(changes))
) STRICT;

CREATE TRIGGER spec_kept BEFORE UPDATE ON spec
WHEN NEW.task_id <> OLD.task_id
    OR ((SELECT state FROM task WHERE id = OLD.task_id) <> 'queued'
        AND json_remove(NEW.body, '$.title', '$.worktree.state', '$.worktree.made', '$.worktree.merge', '$.worktree.merged')
            <> json_remove(OLD.body, '$.title', '$.worktree.state', '$.worktree.made', '$.worktree.merge', '$.worktree.merged')) BEGIN
    SELECT raise(ABORT, 'what was asked for changes only while it waits, but for its title and what became of its worktree');
END;

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

CREATE INDEX message_run ON message (run_id);

CREATE TABLE turn (
    run_id TEXT PRIMARY KEY REFERENCES run (id),
    task_id TEXT NOT NULL REFERENCES task (id),
    body TEXT NOT NULL CHECK (json_valid(body))
) STRICT;

CREATE INDEX turn_task ON turn (task_id);

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

CREATE INDEX side_command_task ON side_command (task_id, run_id, kind, number);

CREATE TABLE notice_sink (
    machine TEXT NOT NULL,
    sink TEXT NOT NULL CHECK (sink IN ('command', 'webhook', 'desktop', 'services')),
    seq INTEGER NOT NULL CHECK (seq >= 0),
    attempts INTEGER NOT NULL CHECK (attempts >= 0),
    since INTEGER,
    due_at INTEGER,
    problem TEXT NOT NULL,
    PRIMARY KEY (machine, sink)
) STRICT;
