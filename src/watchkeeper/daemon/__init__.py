"""The daemon: loops that each do one thing, woken by events, with a slow look as the net.

    claim      takes the next task from the queue             claim.py
    launch     prepares reserved runs                         launch.py
    outbox     does what the outbox says                      outbox.py
    observe    looks at the runs that something happened to   observe.py
    reconcile  looks at all of them, now and then             reconcile.py
    follow     reads what agents print                        follow.py
    settle     decides outcomes                               settle.py
    lease      keeps this machine's lease on a shared database  lease.py
    prune      removes what is provably not needed            prune.py

A loop holds nothing that it could not lose. `wiring` joins them, `service` runs them; `client` is what commands use to find, start and stop a daemon.
"""
