"""This process in another time zone."""

import os
import time
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def in_zone(name: str) -> Generator[None]:
    """Local times are those of that zone while the context lasts."""
    before = os.environ.get("TZ")
    os.environ["TZ"] = name
    time.tzset()
    try:
        yield
    finally:
        if before is None:
            del os.environ["TZ"]
        else:
            os.environ["TZ"] = before
        time.tzset()
