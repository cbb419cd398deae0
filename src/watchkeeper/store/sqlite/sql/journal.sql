-- name: journal_last
SELECT max(seq) FROM journal;
