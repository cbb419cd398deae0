-- What was allowed is what runs: the launch profile of each authorisation. What a person has looked at. What is known of an account's service.

-- The compiled launch profile, its fingerprint, and the directory that it is for. Empty in rows of older versions, which stored only a sentence.
ALTER TABLE authorisation ADD COLUMN profile TEXT CHECK (profile IS NULL OR json_valid(profile));
ALTER TABLE authorisation ADD COLUMN fingerprint TEXT CHECK (fingerprint <> '');
ALTER TABLE authorisation ADD COLUMN directory TEXT;
CREATE INDEX authorisation_directory ON authorisation (directory, seq) WHERE directory IS NOT NULL;

CREATE TRIGGER authorisation_kept BEFORE UPDATE ON authorisation BEGIN
    SELECT raise(ABORT, 'what was allowed never changes');
END;

-- The program's version as it was launched; it may have been replaced since the profile was compiled.
ALTER TABLE launch ADD COLUMN version TEXT;

-- When a person last looked at a task that has ended. NULL while a failure is unread.
ALTER TABLE task ADD COLUMN seen_at INTEGER;
UPDATE task SET seen_at = ended_at WHERE ended_at IS NOT NULL;
CREATE INDEX task_unseen ON task (seq) WHERE state = 'failed' AND seen_at IS NULL;
CREATE INDEX task_unmet ON task (seq) WHERE state = 'queued' AND unmet > 0;

-- How often the service failed the task while it answered others, since a person last asked for it. Only beyond a bound does that count as an attempt.
ALTER TABLE task ADD COLUMN service_failures INTEGER NOT NULL DEFAULT 0 CHECK (service_failures >= 0);

-- Trouble of the service behind an account: since when, as last told, how many probes failed, when the next may start, and which run is the probe. When it
-- was last seen to answer. Whether the probe is still at work is read from its run, so that no crash leaves a probe behind that nobody ends.
ALTER TABLE account_state ADD COLUMN trouble TEXT CHECK (trouble IN ('overloaded', 'network'));
ALTER TABLE account_state ADD COLUMN trouble_says TEXT NOT NULL DEFAULT '';
ALTER TABLE account_state ADD COLUMN trouble_since INTEGER CHECK ((trouble IS NULL) = (trouble_since IS NULL));
ALTER TABLE account_state ADD COLUMN trouble_at INTEGER CHECK ((trouble IS NULL) = (trouble_at IS NULL));
ALTER TABLE account_state ADD COLUMN probes INTEGER NOT NULL DEFAULT 0 CHECK (probes >= 0);
ALTER TABLE account_state ADD COLUMN probe_at INTEGER CHECK ((trouble IS NULL) = (probe_at IS NULL));
ALTER TABLE account_state ADD COLUMN probe_run TEXT CHECK (probe_run IS NULL OR trouble IS NOT NULL OR quota_until IS NOT NULL);
ALTER TABLE account_state ADD COLUMN answered_at INTEGER;

-- Where a run works: the top of its checkout, or a plain directory, with a slash at its end. NULL before it is prepared, and in older rows.
ALTER TABLE run ADD COLUMN place TEXT CHECK (place <> '');
CREATE INDEX run_worked ON run (settled_at, place) WHERE settled_at IS NOT NULL AND place IS NOT NULL;

DROP VIEW task_whole;
CREATE VIEW task_whole AS
SELECT
    task.id, task.state, task.version, task.created_at, task.updated_at, task.runs, task.attempts, task.unlaunched,
    task.run_id, task.wake_at, task.wake_for, task.stop_how, task.stop_by, task.stop_at, task.stop_grace_s,
    task.environment_id, task.environment_machine, task.reason, task.kind, task.ended_at, task.pinned_at, task.seen_at,
    task.service_failures, spec.body
FROM task JOIN spec ON spec.task_id = task.id;
