-- name: machines_database_id
SELECT database_id FROM meta WHERE id = 1;

-- name: machines_begin
INSERT INTO machine (id, incarnation, boot_id, started_at, name, holder, version, lease_until)
VALUES (:id, 1, :boot_id, :started_at, :name, :holder, :version, NULL)
ON CONFLICT (id) DO UPDATE SET
    incarnation = machine.incarnation + 1, boot_id = excluded.boot_id, started_at = excluded.started_at,
    name = excluded.name, holder = excluded.holder, version = excluded.version, lease_until = NULL
RETURNING id, incarnation, boot_id, started_at, name, holder, version, lease_until;

-- name: machines_get
SELECT id, incarnation, boot_id, started_at, name, holder, version, lease_until FROM machine WHERE id = :id;

-- name: machines_all
SELECT id, incarnation, boot_id, started_at, name, holder, version, lease_until FROM machine ORDER BY name, id;

-- name: machines_renew
UPDATE machine SET lease_until = :lease_until
WHERE id = :id AND incarnation = :incarnation AND holder = :holder;

-- name: machines_mend
INSERT INTO machine (id, incarnation, boot_id, started_at, name, holder, version, lease_until)
VALUES (:id, :incarnation, :boot_id, :started_at, :name, :holder, :version, :lease_until)
ON CONFLICT (id) DO UPDATE SET
    incarnation = excluded.incarnation, boot_id = excluded.boot_id, started_at = excluded.started_at,
    name = excluded.name, holder = excluded.holder, version = excluded.version, lease_until = excluded.lease_until;
