-- name: damage_rules
SELECT sql FROM sqlite_schema WHERE type = 'table' AND name = :name;

-- name: damage_numbers
SELECT given.name, coalesce(given.largest, 0), coalesce(sqlite_sequence.seq, 0)
FROM (
    SELECT 'task' AS name, (SELECT max(seq) FROM task) AS largest
    UNION ALL SELECT 'authorisation', (SELECT max(seq) FROM authorisation)
    UNION ALL SELECT 'journal', (SELECT max(seq) FROM journal)
    UNION ALL SELECT 'outbox', (SELECT max(id) FROM outbox)
    UNION ALL SELECT 'lane', (SELECT max(id) FROM lane)
) AS given LEFT JOIN sqlite_sequence ON sqlite_sequence.name = given.name;
