-- name: waits_before
SELECT id FROM task
WHERE checkout = :checkout AND blocked = (SELECT CAST(0 AS BIGINT)) AND lane = :lane AND state = 'queued' AND stop_at IS NULL AND ready = 1
    AND unmet = 0 AND priority >= :priority AND id <> :id
ORDER BY priority DESC, seq LIMIT 1;
