-- name: rules_all
SELECT scope, name, paused, max_running, by, at FROM queue_rule ORDER BY scope, name;

-- name: rules_put
INSERT INTO queue_rule (scope, name, paused, max_running, by, at)
VALUES (:scope, :name, :paused, :max_running, :by, :at)
ON CONFLICT (scope, name) DO UPDATE SET
    paused = excluded.paused, max_running = excluded.max_running, by = excluded.by, at = excluded.at;

-- name: rules_drop
DELETE FROM queue_rule WHERE scope = :scope AND name = :name;

-- name: rules_announced
SELECT lane, reason FROM lane_closed WHERE machine = :machine;

-- name: rules_close
INSERT INTO lane_closed (machine, lane, reason, at) VALUES (:machine, :lane, :reason, :at)
ON CONFLICT (machine, lane) DO UPDATE SET reason = excluded.reason, at = excluded.at;

-- name: rules_open
DELETE FROM lane_closed WHERE machine = :machine AND lane = :lane;
