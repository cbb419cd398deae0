# The commands of this repository. `./test` and the hook call the same ones.

export PATH := justfile_directory() / ".venv/bin:" + env("PATH")

# list the recipes
[private]
default:
    @just --list --unsorted

# rewrite every file as the formatter would have it
fmt:
    ruff format .
    ruff check --select I --fix .

# is every file as the formatter would have it?
[no-exit-message]
fmt-check:
    ruff format --check .

# ruff, with everything on that has no reason to be off, and the prose linter
[no-exit-message]
lint: prose
    ruff check .

# the prose linter (docs/writing.md): `just prose --all FILE` shows everything, `just prose --write` lowers the baseline
[no-exit-message]
prose *arguments:
    PYTHONPATH=scripts python -W ignore -m prose {{ arguments }}

# basedpyright, strict over src
[no-exit-message]
types:
    basedpyright

# do imports point inward?
[no-exit-message]
contracts:
    lint-imports --no-logo

# every test, in three processes, because a test waits a third of its time; a process that has no tests left takes over some of another's
[no-exit-message]
tests *arguments:
    pytest -n 3 --dist worksteal {{ arguments }}

# one part of the tests: `just part domain`
[no-exit-message]
part name *arguments:
    pytest tests/{{ name }} {{ arguments }}

# the quick tests on every other Python that is here: `just pythons 3.13` for one
[no-exit-message]
pythons *version:
    scripts/each_python.sh {{ version }}

# die at every named point, recover, compare
[no-exit-message]
crash *arguments:
    pytest -n 3 --dist worksteal tests/crash {{ arguments }}

# the whole program with real processes, real git and the real agent
[no-exit-message]
e2e *arguments:
    pytest tests/e2e {{ arguments }}

# make each known mutant in a copy of the tree; its tests must fail: `just mutants proof`
[no-exit-message]
mutants *words:
    python scripts/known_mutants.py {{ words }}

# change a file in every way that mutmut knows, or a package in some, and count what the tests notice: `just mutate src/watchkeeper/app --sample 120`
[no-exit-message]
mutate path *arguments:
    python scripts/mutate.py {{ path }} {{ arguments }}

# write the tables of docs/rules.md, the page of commands docs/cli.md, and the dump of the schema anew
tables:
    python scripts/write_schema.py
    python scripts/write_tables.py
    python scripts/write_cli_reference.py

# draw the rooms of docs/architecture.md, and the walk of a real task through them
rooms:
    python scripts/write_rooms.py

# draw what the commands print in a terminal of 80 columns, into docs/pictures
pictures:
    python scripts/pictures.py

# write the lock files anew, with hashes (`just lock --upgrade` takes newer versions)
lock *arguments:
    python scripts/lock.py {{ arguments }}

# do the lock files fit pyproject.toml?
lock-check:
    python scripts/lock.py --check

# build the wheels into dist/
build:
    python -m hatchling build -t wheel
    cd packages/watchkeeper-testing && python -m hatchling build -t wheel -d ../../dist

# a git hook that runs the quick gates before each commit
hooks:
    mkdir -p "$(git rev-parse --git-path hooks)"
    printf '#!/bin/sh\nexec .venv/bin/just quick\n' >"$(git rev-parse --git-path hooks)/pre-commit"
    chmod +x "$(git rev-parse --git-path hooks)/pre-commit"

# what the hook runs: the gates that take seconds
quick: fmt-check lint contracts
