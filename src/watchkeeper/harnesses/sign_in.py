"""Look at the sign-in of an agent program from outside: its own word by an exit code, and what its files look like.

Nothing is read of any file and nothing that a program prints is kept, so no secret can pass through here.
"""

import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from watchkeeper.crash import crashpoint
from watchkeeper.domain.account import SignIn
from watchkeeper.errors import BadTask, HarnessError
from watchkeeper.ports.harness import Harness
from watchkeeper.ports.sign_in import SignInCheck, SignInStamp, SignsIn, signs_in

ASK_TIMEOUT_S = 15.0
"""Real programs take 0.2 s, when cold up to 3 s."""

_SIGNED_OUT = 1


class SignInLooker:
    """Looks at sign-ins."""

    def __init__(self, timeout_s: float = ASK_TIMEOUT_S) -> None:
        """Give a program `timeout_s` to say whether it is signed in."""
        self._timeout_s = timeout_s

    def stamp(self, harness: SignsIn, environment: Mapping[str, str]) -> SignInStamp:
        """What the files look like. The time is that of the inode, so that a file put back from a backup counts as changed."""
        parts: list[str] = []
        newest = 0
        for number, file in enumerate(harness.sign_in_files(environment)):
            try:
                status = Path(file).stat()
            except (OSError, ValueError):
                continue
            parts.append(f"{number}:{status.st_ino}:{status.st_size}:{status.st_ctime_ns}")
            newest = max(newest, status.st_ctime_ns)
        return SignInStamp(text=" ".join(parts), changed_ns=newest)

    def check(self, harness: Harness, environment: Mapping[str, str], options: Mapping[str, str]) -> SignInCheck:
        """The program's own word, or the files' where it has none."""
        told = signs_in(harness)
        if told is None:
            return SignInCheck(
                sign_in=SignIn.UNKNOWN,
                detail=f"not known: wk cannot ask the harness {harness.name} whether it is signed in",
            )
        if key := next((name for name in told.key_variables if environment.get(name)), None):
            return SignInCheck(sign_in=SignIn.IN, detail=f"by {key}; whether it is accepted shows when an agent runs")
        try:
            program = harness.find(environment, options)
        except (BadTask, HarnessError) as problem:  # an option of the settings may be wrong, too
            return SignInCheck(sign_in=SignIn.UNKNOWN, detail=str(problem).rstrip("."))
        question = told.sign_in_question(program)
        if question is None:
            there = bool(self.stamp(told, environment).text)
            return _result(there, harness)
        return self._asked(question, environment, harness)

    def _asked(self, question: tuple[str, ...], environment: Mapping[str, str], harness: Harness) -> SignInCheck:
        try:
            code = subprocess.run(
                question,
                check=False,
                cwd="/",
                env=dict(environment),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=self._timeout_s,
            ).returncode
        except subprocess.TimeoutExpired:
            return SignInCheck(
                sign_in=SignIn.UNKNOWN, detail=f"the program did not answer within {self._timeout_s:g} s"
            )
        except (OSError, ValueError) as problem:
            return SignInCheck(sign_in=SignIn.UNKNOWN, detail=f"the program could not be asked: {problem}")
        if code not in {0, _SIGNED_OUT}:
            return SignInCheck(sign_in=SignIn.UNKNOWN, detail=f"the program did not say (exit code {code})")
        return _result(code == 0, harness)


def run_login(argv: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run a program's own login with our terminal, and return its exit code. Ctrl-C is the login's to hear.

    It does not run in a project, whose settings could name another service to sign in to.

    Raises:
        HarnessError: it could not be started.
    """
    was = signal.signal(signal.SIGINT, _let_it_hear)  # unlike SIG_IGN, a handler is not inherited
    try:
        crashpoint("account.login.before")
        with subprocess.Popen(list(argv), env=dict(environment), cwd="/") as login:
            crashpoint("account.login.after")
            return login.wait()
    except OSError as problem:
        msg = f"The login could not be started: {problem.strerror or problem}."
        raise HarnessError(msg, hint="`wk doctor` looks at the agent programs.") from problem
    finally:
        _ = signal.signal(signal.SIGINT, was)


def _let_it_hear(_number: int, _frame: object) -> None:
    """The login hears the same Ctrl-C, and what it does then is its own matter."""


def _result(signed_in: bool, harness: Harness) -> SignInCheck:  # noqa: FBT001 - the one thing that it is about
    if signed_in:
        return SignInCheck(sign_in=SignIn.IN, detail=f"{harness.name} says that it is signed in")
    return SignInCheck(sign_in=SignIn.OUT, detail=f"{harness.name} reports no sign-in")
