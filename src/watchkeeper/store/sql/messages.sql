-- name: messages_add
INSERT INTO message (task_id, number, state, key, run_id, body)
VALUES (:task_id, :number, :state, :key, :run_id, :body) ON CONFLICT DO NOTHING;

-- name: messages_save
UPDATE message SET state = :state, run_id = :run_id, body = :body
WHERE task_id = :task_id AND number = :number AND state = :was_state AND coalesce(run_id, '') = :was_run
    AND state IN ('waiting', 'taken');

-- name: messages_of_task
SELECT task_id, number, state, run_id, body FROM message WHERE task_id = :task_id ORDER BY number;

-- name: messages_open
SELECT task_id, number, state, run_id, body FROM message
WHERE task_id = :task_id AND state IN ('waiting', 'taken') ORDER BY number;

-- name: messages_keyed
SELECT task_id, number, state, run_id, body FROM message WHERE task_id = :task_id AND key = :key;

-- name: messages_last
SELECT coalesce(max(number), 0) FROM message WHERE task_id = :task_id;

-- name: messages_add_turn
INSERT INTO turn (run_id, task_id, body) VALUES (:run_id, :task_id, :body) ON CONFLICT DO NOTHING;

-- name: messages_turn
SELECT run_id, task_id, body FROM turn WHERE run_id = :run_id;
