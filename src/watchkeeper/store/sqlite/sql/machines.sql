-- name: machines_database_id
SELECT database_id FROM meta WHERE id = 1;

-- name: machines_begin
INSERT INTO machine (id, incarnation, boot_id, started_at) VALUES (:id, 1, :boot_id, :started_at)
ON CONFLICT (id) DO UPDATE SET
    incarnation = machine.incarnation + 1, boot_id = excluded.boot_id, started_at = excluded.started_at
RETURNING id, incarnation, boot_id, started_at;

-- name: machines_get
SELECT id, incarnation, boot_id, started_at FROM machine WHERE id = :id;
