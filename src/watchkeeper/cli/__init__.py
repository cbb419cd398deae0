"""The command line, `wk`.

    main         the group of all commands, loaded one at a time
    call         what a command gets: the environment, the joined parts, the terminal
    commands/    one command a file
    render       text for people, safe for their terminal
    errors       from an error to one sentence and an exit code
    follow       waiting until something changes
    waiting      waiting until tasks come to rest
    output       reading what agents print
    harnesses    which agent program, if none was named
    daemon       finding and starting the daemon

A command that reads starts nothing and creates nothing. Heavy modules are imported by the functions that need them.
"""
