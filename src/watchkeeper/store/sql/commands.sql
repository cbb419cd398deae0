-- name: commands_add
INSERT INTO side_command (run_id, kind, number, task_id, execution_id, state, body)
VALUES (:run_id, :kind, :number, :task_id, :execution_id, :state, :body) ON CONFLICT DO NOTHING;

-- name: commands_save
UPDATE side_command SET execution_id = :execution_id, state = :state, body = :body
WHERE run_id = :run_id AND kind = :kind AND number = :number AND execution_id = :was_execution AND state = :was_state;

-- name: commands_of_run
SELECT run_id, task_id, body FROM side_command WHERE run_id = :run_id ORDER BY kind, number;

-- name: commands_of_task
SELECT run_id, task_id, body FROM side_command WHERE task_id = :task_id ORDER BY run_id, kind, number;

-- name: commands_by_execution
SELECT run_id, task_id, body FROM side_command WHERE execution_id = :execution_id;

-- name: commands_keep_changes
INSERT INTO changes_before_checks (run_id, changes) VALUES (:run_id, :changes) ON CONFLICT DO NOTHING;

-- name: commands_changes
SELECT run_id, changes FROM changes_before_checks WHERE run_id = :run_id;
