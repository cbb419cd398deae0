"""The verbs: one file each. A verb reads, lets `domain` decide, and writes in one transaction; what it wants done in the world goes through the outbox.

    hand_over  edit  retry  stop  what people ask for: a request is checked without writing, then done
    add                           checked tasks into the queue
    claim  launch  perform        from the queue to a started shim
    observe  settle               from evidence to an outcome
    prune                         what is provably no longer needed
    views/                        read models for every face

`record` holds the two lines that all of them share: apply an event, write the row, journal it, queue its effects.
"""
