-- name: deletion_note_removed
INSERT INTO removed_task (id) VALUES (:task_id) ON CONFLICT (id) DO NOTHING;

-- name: deletion_removed_like
SELECT id FROM removed_task WHERE id >= :first AND id < :beyond ORDER BY id LIMIT :limit;

-- name: deletion_drop_messages
DELETE FROM message WHERE task_id = :task_id;

-- name: deletion_drop_turns
DELETE FROM turn WHERE task_id = :task_id;

-- name: deletion_drop_side_commands
DELETE FROM side_command WHERE task_id = :task_id;

-- name: deletion_drop_changes
DELETE FROM changes_before_checks WHERE run_id IN (SELECT id FROM run WHERE task_id = :task_id);

-- name: deletion_drop_launches
DELETE FROM launch WHERE run_id IN (SELECT id FROM run WHERE task_id = :task_id);

-- name: deletion_drop_outcomes
DELETE FROM outcome WHERE run_id IN (SELECT id FROM run WHERE task_id = :task_id);

-- name: deletion_drop_runs
DELETE FROM run WHERE task_id = :task_id;

-- name: deletion_drop_executions
DELETE FROM execution WHERE session_id IN (SELECT id FROM session WHERE task_id = :task_id);

-- name: deletion_drop_sessions
DELETE FROM session WHERE task_id = :task_id;

-- name: deletion_drop_authorisations
DELETE FROM authorisation WHERE task_id = :task_id;

-- name: deletion_drop_dependencies
DELETE FROM dependency WHERE task_id = :task_id;

-- name: deletion_recount_dependents
UPDATE task SET unmet = (
    SELECT count(*) FROM dependency JOIN task AS other ON other.id = dependency.on_id
    WHERE dependency.task_id = task.id AND dependency.on_id <> :task_id AND other.state <> 'done'
)
WHERE id IN (SELECT task_id FROM dependency WHERE on_id = :task_id);

-- name: deletion_drop_dependents
DELETE FROM dependency WHERE on_id = :task_id;

-- name: deletion_drop_labels
DELETE FROM label WHERE task_id = :task_id;

-- name: deletion_drop_spec
DELETE FROM spec WHERE task_id = :task_id;

-- name: deletion_drop_task
DELETE FROM task WHERE id = :task_id;

-- name: deletion_ended
SELECT seq, id FROM task
WHERE state = :state AND seq > :after AND ended_at < :before AND pinned_at IS NULL ORDER BY seq LIMIT :limit;

-- name: deletion_history
SELECT seq, at FROM journal WHERE seq > :after ORDER BY seq LIMIT :limit;

-- name: deletion_note_forgotten
UPDATE meta SET forgotten = :seq WHERE id = 1 AND forgotten < :seq;

-- name: deletion_forgotten
SELECT forgotten FROM meta WHERE id = 1;

-- name: deletion_forget_operations
DELETE FROM operation WHERE id IN (SELECT id FROM operation WHERE at < :before ORDER BY at LIMIT :limit);

-- With its own OFFSET the task of an entry is looked up by its id; a server could else read all tasks first.

-- name: deletion_forget
DELETE FROM journal
WHERE seq > :after AND seq <= :last AND at < :before
    AND (task_id IS NULL OR NOT EXISTS (SELECT 1 FROM task WHERE task.id = journal.task_id LIMIT 1 OFFSET 0))
RETURNING seq;
