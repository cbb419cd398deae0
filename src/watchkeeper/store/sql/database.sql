-- name: database_schema
SELECT coalesce(max(number), 0) FROM migration;
