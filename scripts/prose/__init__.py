"""The prose linter: proselint over everything that a person reads, with the rules of this house (`docs/writing.md`).

- `texts`: which parts of a file are prose. Everything else becomes blanks, so that lines and columns stay right.
- `rules`: the rules, each with its reason.
- `baseline.toml`: findings that are older than the linter, counted by file. A count may only fall.
"""
