-- What became of a task's worktree is recorded beside its plan, whatever state the task is in; the plan itself stays.

DROP TRIGGER spec_kept;
CREATE TRIGGER spec_kept BEFORE UPDATE ON spec
WHEN NEW.task_id <> OLD.task_id
    OR ((SELECT state FROM task WHERE id = OLD.task_id) <> 'queued'
        AND json_remove(NEW.body, '$.title', '$.worktree.state', '$.worktree.made')
            <> json_remove(OLD.body, '$.title', '$.worktree.state', '$.worktree.made')) BEGIN
    SELECT raise(ABORT, 'what was asked for changes only while it waits, but for its title and what became of its worktree');
END;

-- The tasks that have a worktree are few among all.
CREATE INDEX spec_worktree ON spec (task_id) WHERE body LIKE '%"worktree":{%';
