-- name: tasks_get
SELECT * FROM task_whole WHERE id = :id;

-- name: tasks_take_key
UPDATE task SET key = :key, key_digest = :key_digest WHERE id = :id;

-- name: tasks_keyed
SELECT id, key_digest FROM task WHERE key = :key;

-- name: tasks_key_of
SELECT key FROM task WHERE id = :id;

-- name: tasks_save
UPDATE task SET
    state = :state, version = version + 1, ready = :ready, wake_at = :wake_at, wake_for = :wake_for, runs = :runs,
    attempts = :attempts, unlaunched = :unlaunched, run_id = :run_id, stop_how = :stop_how, stop_by = :stop_by,
    stop_at = :stop_at, stop_grace_s = :stop_grace_s, environment_id = :environment_id,
    environment_machine = :environment_machine, reason = :reason, kind = :kind,
    updated_at = :updated_at, ended_at = :ended_at, pinned_at = :pinned_at, seen_at = :seen_at,
    service_failures = :service_failures, blocked = 0
WHERE id = :id AND version = :version;

-- name: tasks_save_spec
UPDATE spec SET body = :body WHERE task_id = :task_id;

-- name: tasks_save_place
UPDATE task SET priority = :priority, lane = :lane, checkout = :checkout, blocked = 0 WHERE id = :id;

-- name: tasks_drop_dependencies
DELETE FROM dependency WHERE task_id = :task_id;

-- name: tasks_count_unmet
UPDATE task SET blocked = 0, unmet = (
    SELECT count(*) FROM dependency JOIN task AS other ON other.id = dependency.on_id
    WHERE dependency.task_id = :id AND other.state <> 'done'
)
WHERE id = :id;

-- name: tasks_tell_dependents
UPDATE task SET unmet = unmet + :more, blocked = 0
WHERE id IN (SELECT task_id FROM dependency WHERE on_id = :on_id);

-- name: tasks_brief
SELECT
    task.ready,
    task.unmet,
    (
        SELECT dependency.on_id || ' ' || other.state FROM dependency JOIN task AS other ON other.id = dependency.on_id
        WHERE dependency.task_id = task.id AND other.state <> 'done'
        ORDER BY other.state NOT IN ('failed', 'stopped'), other.seq LIMIT 1
    ),
    task.blocked,
    (
        SELECT min(claim.task_id) FROM claim
        WHERE claim.checkout = task.checkout AND (lane.machine = '' OR claim.machine = lane.machine)
    ),
    (
        SELECT min(lane_closed.reason) FROM lane_closed
        WHERE lane_closed.lane = task.lane AND (lane.machine = '' OR lane_closed.machine = lane.machine)
    ),
    (SELECT min(damage.reason) FROM damage WHERE damage.task_id = task.id)
FROM task JOIN lane ON lane.id = task.lane WHERE task.id = :id;

-- name: tasks_drop_labels
DELETE FROM label WHERE task_id = :task_id;

-- name: tasks_labels
SELECT DISTINCT name FROM label WHERE name >= :first AND name < :beyond ORDER BY name LIMIT :limit;

-- name: tasks_ids_like
SELECT id FROM task WHERE id >= :first AND id < :beyond ORDER BY seq DESC LIMIT :limit;

-- name: tasks_seq
SELECT seq FROM task WHERE id = :id;

-- name: tasks_in_state
SELECT seq, id FROM task WHERE state = :state AND seq < :before ORDER BY seq DESC LIMIT :limit;

-- name: tasks_in_state_after
SELECT seq, id FROM task WHERE state = :state AND seq > :after ORDER BY seq LIMIT :limit;

-- name: tasks_unseen
SELECT id FROM task WHERE state = 'failed' AND seen_at IS NULL ORDER BY seq DESC LIMIT :limit;

-- name: tasks_waiting_for_failed
SELECT id FROM task
WHERE state = 'queued' AND unmet > 0 AND EXISTS (
    SELECT 1 FROM dependency JOIN task AS other ON other.id = dependency.on_id
    WHERE dependency.task_id = task.id AND other.state IN ('failed', 'stopped')
)
ORDER BY seq DESC LIMIT :limit;

-- name: tasks_see
UPDATE task SET seen_at = :at WHERE id = :id AND version = :version AND ended_at IS NOT NULL AND seen_at IS NULL;

-- name: tasks_see_all
UPDATE task SET seen_at = :at WHERE state = 'failed' AND seen_at IS NULL;

-- name: tasks_environment_in_use
SELECT 1 FROM task WHERE environment_id = :environment_id AND ended_at IS NULL LIMIT 1;

-- name: tasks_counts
SELECT state, tasks FROM tally;

-- name: tasks_add
INSERT INTO task (
    id, state, version, priority, ready, wake_at, wake_for, runs, attempts, unlaunched, run_id, stop_how, stop_by, stop_at,
    stop_grace_s, environment_id, environment_machine, reason, kind, created_at, updated_at, ended_at, pinned_at, seen_at,
    service_failures, lane, checkout
) VALUES (
    :id, :state, :version, :priority, :ready, :wake_at, :wake_for, :runs, :attempts, :unlaunched, :run_id, :stop_how, :stop_by, :stop_at,
    :stop_grace_s, :environment_id, :environment_machine, :reason, :kind, :created_at, :updated_at, :ended_at, :pinned_at, :seen_at,
    :service_failures, :lane, :checkout
) ON CONFLICT DO NOTHING;

-- name: tasks_add_spec
INSERT INTO spec (task_id, body) VALUES (:task_id, :body) ON CONFLICT DO NOTHING;

-- name: tasks_add_dependency
INSERT INTO dependency (task_id, on_id) VALUES (:task_id, :on_id) ON CONFLICT DO NOTHING;

-- name: tasks_add_label
INSERT INTO label (task_id, name) VALUES (:task_id, :name) ON CONFLICT DO NOTHING;

-- name: tasks_labelled
SELECT task_id FROM label WHERE name = :name ORDER BY task_id;

-- name: tasks_pinned
SELECT id FROM task WHERE pinned_at IS NOT NULL ORDER BY pinned_at DESC, seq DESC;

-- A quotation mark inside a text of the JSON has a backslash before it, so only the field itself is found.
-- name: tasks_with_worktrees
SELECT spec.task_id FROM spec JOIN task ON task.id = spec.task_id
WHERE spec.body LIKE '%"worktree":{%' ORDER BY task.seq;

-- name: tasks_result
SELECT run_id, said FROM outcome WHERE run_id = :run_id;
