-- name: database_version
SELECT current_setting('server_version');

-- name: database_size
SELECT pg_database_size(current_database());

-- name: database_long_transactions
SELECT
    application_name::text, pid, coalesce(usename::text, ''),
    CAST(extract(epoch FROM clock_timestamp() - xact_start) AS DOUBLE PRECISION)
FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_xmin IS NOT NULL
    AND xact_start < clock_timestamp() - make_interval(secs => :longer_s)
ORDER BY xact_start;
