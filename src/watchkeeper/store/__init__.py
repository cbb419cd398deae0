"""The databases behind `watchkeeper.ports.store`.

    rows         the narrow seam that a database offers: named statements, run with values
    statements   where the named statements come from: `.sql` files, read when first used
    values       how our records become columns, and columns our records
    sql/         the statements that every database understands
    tasks  runs  queue  rules  waits  accounts  outcomes  journal  outbox  machines  deletion
                 the adapters of the port, one each, over `rows`; every database shares them
    migrations   numbered steps of a schema, and which of them are missing
    filesystem   which file systems are refused
    sqlite/      SQLite: connection, write lock, migrations, and its own statements
    postgres/    PostgreSQL, for machines that share a queue: the same, over a network

A database brings `rows`, migrations and the statements that are its own, with the same names and parameters, and passes the same contract tests. The same
random programs are run on all of them, and leave the same rows.
"""
