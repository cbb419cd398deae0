-- name: database_version
SELECT sqlite_version();

-- name: database_size
SELECT page_count * page_size FROM pragma_page_count, pragma_page_size;

-- name: database_long_transactions
-- SQLite keeps no list of other programs' transactions.
SELECT '', 0, '', 0.0 WHERE :longer_s IS NULL;
