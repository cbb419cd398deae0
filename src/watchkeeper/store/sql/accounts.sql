-- name: accounts_all
SELECT harness, name, home, variables, created_at, by FROM account ORDER BY id;

-- name: accounts_remove
DELETE FROM account WHERE id = :id;

-- name: accounts_forget
DELETE FROM account_state WHERE account = :account;

-- name: accounts_states
SELECT account, machine, sign_in, sign_in_at, says, mark, quota_until, quota_at FROM account_state
WHERE machine = :machine ORDER BY account;

-- name: accounts_state
SELECT account, machine, sign_in, sign_in_at, says, mark, quota_until, quota_at FROM account_state
WHERE account = :account AND machine = :machine;

-- name: accounts_save_state
INSERT INTO account_state (account, machine, sign_in, sign_in_at, says, mark, quota_until, quota_at)
VALUES (:account, :machine, :sign_in, :sign_in_at, :says, :mark, :quota_until, :quota_at)
ON CONFLICT (account, machine) DO UPDATE SET
    sign_in = excluded.sign_in, sign_in_at = excluded.sign_in_at, says = excluded.says, mark = excluded.mark,
    quota_until = excluded.quota_until, quota_at = excluded.quota_at;

-- name: accounts_harnesses
SELECT harness, machine, present, says, at FROM harness_state WHERE machine = :machine ORDER BY harness;

-- name: accounts_found
INSERT INTO harness_state (harness, machine, present, says, at) VALUES (:harness, :machine, :present, :says, :at)
ON CONFLICT (harness, machine) DO UPDATE SET present = excluded.present, says = excluded.says, at = excluded.at
WHERE excluded.at >= harness_state.at AND (excluded.present <> harness_state.present OR excluded.says <> harness_state.says);

-- name: accounts_open_tasks
SELECT lane.account, count(*) FROM task JOIN lane ON lane.id = task.lane
WHERE task.state IN ('queued', 'running', 'needs_input', 'held')
GROUP BY lane.account ORDER BY lane.account;
