"""How an agent program signs in: what a harness may say of it beside the methods of `ports.harness.Harness`.

All of it is optional. A harness without it has one account, `own`, and nothing is ever known of its sign-in but what its runs come to. Everything here
only says where and how; nothing here starts a program or reads a file, and no secret passes through.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from watchkeeper.domain.account import SignIn
from watchkeeper.ports.harness import Harness, Program


@runtime_checkable
class SignsIn(Protocol):
    """A harness whose program keeps a sign-in in a configuration home."""

    @property
    def home_variable(self) -> str:
        """The variable that says where the program's configuration home is."""
        ...

    @property
    def key_variables(self) -> tuple[str, ...]:
        """Variables that hold a key or token and win over the sign-in of the home; the first is what an account's key becomes."""
        ...

    def sign_in_files(self, environment: Mapping[str, str]) -> tuple[str, ...]:
        """The files that change when a person signs in or out under this environment. Only their status is read; they are never opened."""
        ...

    def sign_in_question(self, program: Program) -> tuple[str, ...] | None:
        """The command line that ends with 0 if the program is signed in and with 1 if not; None: one of the files being there says it."""
        ...

    def login(self, program: Program, *, terminal: bool) -> tuple[str, ...] | None:
        """The program's own login, which talks to a person on the terminal or reads a key from standard input; None: it has none of that kind."""
        ...


def signs_in(harness: Harness) -> SignsIn | None:
    """What the harness says of its program's sign-in, if it says anything."""
    return harness if isinstance(harness, SignsIn) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class SignInCheck:
    """What a sign-in looked like from outside."""

    sign_in: SignIn
    detail: str
    """In a sentence for people; no secret is in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SignInStamp:
    """What the files of a sign-in looked like: not what is in them."""

    text: str
    """Differs whenever a file was written, replaced or removed; empty if there is none."""
    changed_ns: int = 0
    """When the newest of them changed, in nanoseconds since 1970; 0 if there is none."""


class Looker(Protocol):
    """Looks at sign-ins from outside."""

    def stamp(self, harness: SignsIn, environment: Mapping[str, str]) -> SignInStamp:
        """What the files look like now. Costs microseconds."""
        ...

    def check(self, harness: Harness, environment: Mapping[str, str], options: Mapping[str, str]) -> SignInCheck:
        """Ask the program whether it is signed in. Never raises; takes as long as the program takes to say it, but seconds at most."""
        ...
