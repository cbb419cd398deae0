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

-- name: tasks_checkouts_of_dependents
SELECT DISTINCT task.checkout FROM dependency CROSS JOIN LATERAL (
    SELECT checkout, state FROM task WHERE id = dependency.task_id OFFSET 0
) AS task
WHERE dependency.on_id = :on_id AND task.checkout IS NOT NULL AND task.state = 'queued';
