-- What became of a task's worktree is recorded beside its plan, whatever state the task is in; the plan itself stays. Both are cut out as text, see 0002: the
-- worktree is the last field of what was asked for, and its state and its making are the last fields of it.

CREATE OR REPLACE FUNCTION spec_kept() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    title CONSTANT TEXT := '"title":"([^"\\]|\\.)*"';
    became CONSTANT TEXT := '"state":"(planned|made|removing|removed)","made":.*$';
BEGIN
    IF NEW.task_id <> OLD.task_id
        OR ((SELECT state FROM watchkeeper.task WHERE id = OLD.task_id) <> 'queued'
            AND regexp_replace(regexp_replace(NEW.body, title, ''), became, '')
                <> regexp_replace(regexp_replace(OLD.body, title, ''), became, '')) THEN
        RAISE EXCEPTION 'what was asked for changes only while it waits, but for its title and what became of its worktree'
            USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $$;

-- The tasks that have a worktree are few among all.
CREATE INDEX spec_worktree ON spec (task_id) WHERE body LIKE '%"worktree":{%';
