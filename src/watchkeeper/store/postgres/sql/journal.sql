-- name: journal_last
SELECT (SELECT seq FROM journal ORDER BY seq DESC LIMIT 1);
