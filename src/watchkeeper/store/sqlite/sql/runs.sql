-- name: runs_live
SELECT run_whole.* FROM claim JOIN run_whole ON run_whole.id = claim.run_id ORDER BY claim.fence;

-- name: runs_live_on
SELECT run_whole.* FROM claim JOIN run_whole ON run_whole.id = claim.run_id WHERE claim.machine = :machine ORDER BY claim.fence;
