-- name: tasks_checkouts_of_dependents
SELECT DISTINCT task.checkout FROM dependency CROSS JOIN LATERAL (
    SELECT checkout, state FROM task WHERE id = dependency.task_id OFFSET 0
) AS task
WHERE dependency.on_id = :on_id AND task.checkout IS NOT NULL AND task.state = 'queued';
