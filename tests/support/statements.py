"""Every statement that a database has, its own and those of all."""

from importlib.resources import files

from watchkeeper.store.statements import SHARED, of_topic, parse


def topics() -> list[str]:
    """The topics that there are."""
    return sorted(entry.name.removesuffix(".sql") for entry in (files(SHARED) / "sql").iterdir())


def statements(package: str) -> dict[str, str]:
    """Every statement of the database in `package`."""
    return {name: sql for topic in topics() for name, sql in of_topic(package, topic).items()}


def own(package: str) -> dict[str, dict[str, str]]:
    """By file, the statements that stand in the `sql` folder of that package."""
    return {entry.name: parse(entry.read_text()) for entry in (files(package) / "sql").iterdir()}
