"""What the system says is never "None"."""

import errno
import os

import pytest

from watchkeeper.errors import describe_os_error


@pytest.mark.parametrize(
    ("problem", "detail"),
    [
        (OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/f"), "No space left on device"),
        (OSError("Cannot call rmtree on a symbolic link"), "Cannot call rmtree on a symbolic link"),
        (OSError(None, None, "/f"), "the system refused it"),
        (OSError(), "the system refused it"),
        (TimeoutError("timed out"), "timed out"),
    ],
)
def test_words_for_every_error(problem: OSError, detail: str) -> None:
    problem.filename = "/f"  # as some of the library's functions set it afterwards
    assert describe_os_error(problem) == detail
