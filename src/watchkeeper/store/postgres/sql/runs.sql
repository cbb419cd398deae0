-- name: runs_live
SELECT whole.* FROM claim CROSS JOIN LATERAL (SELECT * FROM run_whole WHERE id = claim.run_id OFFSET 0) AS whole
ORDER BY claim.fence;

-- name: runs_live_on
SELECT whole.* FROM claim CROSS JOIN LATERAL (SELECT * FROM run_whole WHERE id = claim.run_id OFFSET 0) AS whole
WHERE claim.machine = :machine ORDER BY claim.fence;
