-- How far each sink of a machine is in the journal. What is to be sent needs no rows of its own: it is the journal's.
CREATE TABLE notice_sink (
    machine TEXT NOT NULL,
    sink TEXT NOT NULL CHECK (sink IN ('command', 'webhook', 'desktop', 'services')),
    seq INTEGER NOT NULL CHECK (seq >= 0),
    attempts INTEGER NOT NULL CHECK (attempts >= 0),
    since INTEGER,
    due_at INTEGER,
    problem TEXT NOT NULL,
    PRIMARY KEY (machine, sink)
) STRICT;
