-- name: waits_before
SELECT id FROM task INDEXED BY task_checkout
WHERE checkout = :checkout AND blocked = 0 AND lane = :lane AND state = 'queued' AND stop_at IS NULL AND ready = 1
    AND unmet = 0 AND priority >= :priority AND id <> :id
ORDER BY priority DESC, seq LIMIT 1;
