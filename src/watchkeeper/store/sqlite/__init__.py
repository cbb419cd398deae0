"""SQLite, through apsw.

    store        `SqliteStore`: the port, one connection, transactions by turns
    write lock    the write lock: whose turn it is to write, between processes
    connection   a connection: how it is opened, what is set on it, its statements
    schema       the numbered migrations, and how they are applied
    faults       what SQLite's errors mean, in our words
    migrations/  sql/

Durability: in WAL mode with `synchronous=FULL` a commit is on disk before it returns. With NORMAL a power cut may take the newest commits back, always
from the end, and the next FULL commit makes all before it durable. Nothing else is at stake between the two: neither can damage the file.
"""
