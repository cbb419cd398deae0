"""Doing several things at once, each bounded by itself, and waiting for all of them."""

import threading
from collections.abc import Callable, Sequence

_MEANWHILE_S = 0.25


def side_by_side(works: Sequence[Callable[[], None]], meanwhile: Callable[[], None] = lambda: None) -> None:
    """Do all of these, each on a thread of its own, and wait until the last is over.

    `meanwhile` is called again and again until then, so that the results of the quick ones need not wait for the slow ones.

    Raises:
        Exception: the first one that one of them raised; all others were done.
    """
    if len(works) == 1:
        works[0]()
        return
    problems: list[BaseException] = []

    def do(work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as problem:  # noqa: BLE001 - raised below, on the thread that asked
            problems.append(problem)

    threads = [threading.Thread(target=do, args=(work,), name="wk-beside", daemon=True) for work in works]
    begun: list[threading.Thread] = []
    for thread, work in zip(threads, works, strict=True):
        try:
            thread.start()
        except RuntimeError:  # no more threads for us now
            do(work)
        else:
            begun.append(thread)
    for thread in begun:
        while thread.is_alive():
            thread.join(_MEANWHILE_S)
            meanwhile()
    if problems:
        raise problems[0]
