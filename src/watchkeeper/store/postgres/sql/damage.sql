-- name: damage_rules
SELECT pg_get_constraintdef(pg_constraint.oid) FROM pg_constraint JOIN pg_class ON pg_class.oid = pg_constraint.conrelid
WHERE pg_constraint.contype = 'c' AND pg_class.relnamespace = 'watchkeeper'::regnamespace AND pg_class.relname = :name;

-- name: damage_numbers
SELECT given.name, coalesce(given.largest, 0), counter.last
FROM (
    SELECT 'task' AS name, (SELECT max(seq) FROM task) AS largest
    UNION ALL SELECT 'authorisation', (SELECT max(seq) FROM authorisation)
    UNION ALL SELECT 'journal', (SELECT max(seq) FROM journal)
    UNION ALL SELECT 'outbox', (SELECT max(id) FROM outbox)
    UNION ALL SELECT 'lane', (SELECT max(id) FROM lane)
) AS given JOIN counter ON counter.name = given.name;
