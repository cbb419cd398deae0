-- name: tasks_checkouts_of_dependents
SELECT DISTINCT task.checkout FROM dependency JOIN task ON task.id = dependency.task_id
WHERE dependency.on_id = :on_id AND task.checkout IS NOT NULL AND task.state = 'queued';
