-- What became of the merge of a task's branch is recorded beside its worktree, whatever state the task is in.

DROP TRIGGER spec_kept;
CREATE TRIGGER spec_kept BEFORE UPDATE ON spec
WHEN NEW.task_id <> OLD.task_id
    OR ((SELECT state FROM task WHERE id = OLD.task_id) <> 'queued'
        AND json_remove(NEW.body, '$.title', '$.worktree.state', '$.worktree.made', '$.worktree.merge', '$.worktree.merged')
            <> json_remove(OLD.body, '$.title', '$.worktree.state', '$.worktree.made', '$.worktree.merge', '$.worktree.merged')) BEGIN
    SELECT raise(ABORT, 'what was asked for changes only while it waits, but for its title and what became of its worktree');
END;
