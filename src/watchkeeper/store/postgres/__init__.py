"""PostgreSQL, for machines that share a queue; through psycopg. Nothing here is imported before a database with a URL is used.

    store        `PostgresStore`: the port, transactions by turns
    connection   a connection: what is set on it, how transactions begin and end, its statements
    driver       psycopg, with an end to every wait
    address      the URL, and how to speak of it without its password
    schema       the numbered migrations, and how they are applied
    faults       what the server's errors mean, in our words
    wake         a hint that a process has committed
    migrations/  sql/

Writers take turns, as at SQLite's write lock: the first thing that a write transaction does is to take one advisory lock, which goes with the
transaction. So the same rules hold on both, and no two machines ever meet in the middle of a claim.
"""
