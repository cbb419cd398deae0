"""Doing several things at once, each bounded by itself, and waiting for all of them."""

import threading
from collections.abc import Callable, Sequence


def side_by_side(works: Sequence[Callable[[], None]]) -> None:
    """Do all of these, each on a thread of its own, and wait until the last is over.

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
        thread.join()
    if problems:
        raise problems[0]
