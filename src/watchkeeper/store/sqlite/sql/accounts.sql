-- name: accounts_add
INSERT INTO account (id, harness, name, home, variables, created_at, by)
VALUES (:id, :harness, :name, :home, :variables, :created_at, :by);
