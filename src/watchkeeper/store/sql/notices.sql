-- name: notices_all
SELECT machine, sink, seq, attempts, since, due_at, problem FROM notice_sink ORDER BY machine, sink;

-- name: notices_of_machine
SELECT machine, sink, seq, attempts, since, due_at, problem FROM notice_sink WHERE machine = :machine ORDER BY sink;

-- name: notices_put
INSERT INTO notice_sink (machine, sink, seq, attempts, since, due_at, problem)
VALUES (:machine, :sink, :seq, :attempts, :since, :due_at, :problem)
ON CONFLICT (machine, sink) DO UPDATE SET
    seq = excluded.seq, attempts = excluded.attempts, since = excluded.since, due_at = excluded.due_at,
    problem = excluded.problem;

-- name: notices_drop
DELETE FROM notice_sink WHERE machine = :machine AND sink = :sink;
