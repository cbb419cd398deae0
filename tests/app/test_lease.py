"""Beginning an incarnation where another daemon's lease has not ended."""

import threading
from collections.abc import Iterator

import pytest
from support.postgres import open_store, shared_databases

from watchkeeper.app.lease import Lease, Me, begin
from watchkeeper.domain.lease import Holder
from watchkeeper.errors import DaemonError
from watchkeeper.ports.store import Store
from watchkeeper.runtimes.system import SystemClock
from watchkeeper.store.clock import DatabaseClock


@pytest.fixture
def store() -> Iterator[Store]:
    """A database that machines share."""
    databases = shared_databases()
    url = databases.empty()
    made = open_store(url)
    yield made
    made.close()
    databases.drop(url)


def _me(word: str, boot_id: str) -> Me:
    return Me(id="node", holder=Holder(word=word, name="m1", boot_id=boot_id), version="1", directory="/s")


def test_a_host_that_was_started_anew_begins_after_a_while(store: Store) -> None:
    """The lease of before is not renewed."""
    clock = DatabaseClock(store, SystemClock())
    first = begin(store, clock, _me("a.1", "b1"))
    second = begin(store, clock, _me("b.1", "b2"), watch_s=0.2)
    assert (first.incarnation, second.incarnation) == (1, 2)
    assert Lease(store=store, clock=clock, machine=first).renew() is not None, "the first one is told who took over"


def test_a_copy_of_a_whole_disk_is_refused(store: Store) -> None:
    """Same name, same place, another boot: that the lease is renewed gives it away."""
    clock = DatabaseClock(store, SystemClock())
    lease = Lease(store=store, clock=clock, machine=begin(store, clock, _me("a.1", "b1")))
    told = threading.Event()

    def renew() -> None:
        while not told.wait(0.05):
            _ = lease.renew()

    renewing = threading.Thread(target=renew)
    renewing.start()
    try:
        with pytest.raises(DaemonError, match="is a copy of the other"):
            begin(store, clock, _me("b.1", "b2"), watch_s=5)
    finally:
        told.set()
        renewing.join()
    assert lease.renew() is None


def test_a_lease_that_was_given_back_is_anybodys(store: Store) -> None:
    clock = DatabaseClock(store, SystemClock())
    lease = Lease(store=store, clock=clock, machine=begin(store, clock, _me("a.1", "b1")))
    lease.give_back()
    assert begin(store, clock, _me("b.9", "b9")).incarnation == 2
