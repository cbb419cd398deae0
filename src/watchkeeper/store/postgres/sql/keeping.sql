-- name: keeping_forget
DELETE FROM journal
WHERE seq > :after AND seq <= :last AND at < :before
    AND (task_id IS NULL OR NOT EXISTS (SELECT 1 FROM task WHERE task.id = journal.task_id OFFSET 0))
RETURNING seq;
