-- name: tasks_add
INSERT INTO task (
    id, state, version, priority, ready, wake_at, wake_for, runs, attempts, unlaunched, run_id, stop_how, stop_by, stop_at,
    stop_grace_s, environment_id, environment_machine, reason, kind, created_at, updated_at, ended_at, pinned_at, seen_at,
    service_failures, lane, checkout
) VALUES (
    :id, :state, :version, :priority, :ready, :wake_at, :wake_for, :runs, :attempts, :unlaunched, :run_id, :stop_how, :stop_by, :stop_at,
    :stop_grace_s, :environment_id, :environment_machine, :reason, :kind, :created_at, :updated_at, :ended_at, :pinned_at, :seen_at,
    :service_failures, :lane, :checkout
);

-- name: tasks_add_spec
INSERT INTO spec (task_id, body) VALUES (:task_id, :body);

-- name: tasks_add_dependency
INSERT INTO dependency (task_id, on_id) VALUES (:task_id, :on_id);

-- name: tasks_add_label
INSERT INTO label (task_id, name) VALUES (:task_id, :name);

-- name: tasks_labelled
SELECT task_id FROM label WHERE name = :name;

-- name: tasks_pinned
SELECT id FROM task WHERE pinned_at IS NOT NULL ORDER BY pinned_at DESC;

-- name: tasks_checkouts_of_dependents
SELECT DISTINCT task.checkout FROM dependency JOIN task ON task.id = dependency.task_id
WHERE dependency.on_id = :on_id AND task.checkout IS NOT NULL AND task.state = 'queued';
