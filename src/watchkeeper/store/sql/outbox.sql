-- name: outbox_put
INSERT INTO outbox (kind, payload, attempts, not_before, put_at, machine) VALUES (:kind, :payload, 0, :at, :at, :machine);

-- name: outbox_due
SELECT id, kind, payload, attempts, not_before FROM outbox
WHERE (not_before <= :now OR not_before > :beyond) AND id > :after AND machine IN ('', :machine) ORDER BY id LIMIT :limit;

-- name: outbox_soonest
SELECT id, kind, payload, attempts, not_before FROM outbox
WHERE machine IN ('', :machine) ORDER BY not_before, id LIMIT :limit OFFSET :offset;

-- name: outbox_done
DELETE FROM outbox WHERE id = :id;

-- name: outbox_again
UPDATE outbox SET attempts = attempts + 1, not_before = :not_before WHERE id = :id;

-- name: outbox_pending
SELECT count(*) FROM outbox;

-- name: outbox_bind
UPDATE outbox SET machine = :machine WHERE machine = '';
