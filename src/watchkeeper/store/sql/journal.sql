-- name: journal_append
INSERT INTO journal (at, kind, task_id, run_id, fence, data)
VALUES (:at, :kind, :task_id, :run_id, :fence, :data) RETURNING seq;

-- name: journal_after
SELECT seq, at, kind, task_id, run_id, fence, data FROM journal WHERE seq > :seq ORDER BY seq LIMIT :limit;

-- name: journal_after_of_task
SELECT seq, at, kind, task_id, run_id, fence, data FROM journal
WHERE task_id = :task_id AND seq > :seq ORDER BY seq LIMIT :limit;

-- name: journal_last
SELECT max(seq) FROM journal;
