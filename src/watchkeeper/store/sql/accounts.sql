-- name: accounts_all
SELECT harness, name, home, variables, created_at, by FROM account ORDER BY id;

-- name: accounts_remove
DELETE FROM account WHERE id = :id;

-- name: accounts_forget
DELETE FROM account_state WHERE account = :account;

-- A probe whose run was settled, is held, or is no longer there is none.

-- name: accounts_states
SELECT
    account_state.account, account_state.machine, account_state.sign_in, account_state.sign_in_at, account_state.detail,
    account_state.mark, account_state.quota_until, account_state.quota_at, account_state.trouble, account_state.trouble_detail,
    account_state.trouble_since, account_state.trouble_at, account_state.probes, account_state.probe_at, run.id,
    account_state.answered_at
FROM account_state
LEFT JOIN run ON run.id = account_state.probe_run AND run.state IN ('reserved', 'prepared', 'starting', 'running', 'ended')
WHERE account_state.machine = :machine ORDER BY account_state.account;

-- name: accounts_state
SELECT
    account_state.account, account_state.machine, account_state.sign_in, account_state.sign_in_at, account_state.detail,
    account_state.mark, account_state.quota_until, account_state.quota_at, account_state.trouble, account_state.trouble_detail,
    account_state.trouble_since, account_state.trouble_at, account_state.probes, account_state.probe_at, run.id,
    account_state.answered_at
FROM account_state
LEFT JOIN run ON run.id = account_state.probe_run AND run.state IN ('reserved', 'prepared', 'starting', 'running', 'ended')
WHERE account_state.account = :account AND account_state.machine = :machine;

-- name: accounts_save_state
INSERT INTO account_state (
    account, machine, sign_in, sign_in_at, detail, mark, quota_until, quota_at, trouble, trouble_detail, trouble_since, trouble_at,
    probes, probe_at, probe_run, answered_at
) VALUES (
    :account, :machine, :sign_in, :sign_in_at, :detail, :mark, :quota_until, :quota_at, :trouble, :trouble_detail, :trouble_since, :trouble_at,
    :probes, :probe_at, :probe_run, :answered_at
)
ON CONFLICT (account, machine) DO UPDATE SET
    sign_in = excluded.sign_in, sign_in_at = excluded.sign_in_at, detail = excluded.detail, mark = excluded.mark,
    quota_until = excluded.quota_until, quota_at = excluded.quota_at, trouble = excluded.trouble,
    trouble_detail = excluded.trouble_detail, trouble_since = excluded.trouble_since, trouble_at = excluded.trouble_at,
    probes = excluded.probes, probe_at = excluded.probe_at, probe_run = excluded.probe_run, answered_at = excluded.answered_at;

-- name: accounts_harnesses
SELECT harness, machine, present, detail, at FROM harness_state WHERE machine = :machine ORDER BY harness;

-- name: accounts_found
INSERT INTO harness_state (harness, machine, present, detail, at) VALUES (:harness, :machine, :present, :detail, :at)
ON CONFLICT (harness, machine) DO UPDATE SET present = excluded.present, detail = excluded.detail, at = excluded.at
WHERE excluded.at >= harness_state.at AND (excluded.present <> harness_state.present OR excluded.detail <> harness_state.detail);

-- name: accounts_open_tasks
SELECT lane.account, count(*) FROM task JOIN lane ON lane.id = task.lane
WHERE task.state IN ('queued', 'running', 'needs_input', 'held')
GROUP BY lane.account ORDER BY lane.account;

-- name: accounts_add
INSERT INTO account (id, harness, name, home, variables, created_at, by)
VALUES (:id, :harness, :name, :home, :variables, :created_at, :by) ON CONFLICT DO NOTHING;
