"""How each agent program fails and what its run is then called: the rows that the end-to-end tests show, and that `docs/harnesses/failures.md` prints.

`python tests/support/failure_table.py` writes the page anew.
"""

import sys
from dataclasses import dataclass
from pathlib import Path

from watchkeeper.domain.failure import ROWS, FailureKind
from watchkeeper.domain.service import SERVICE_KINDS

PAGE = Path(__file__).parents[2] / "docs" / "harnesses" / "failures.md"
BEGIN, END = "<!-- failures: written by tests/support/failure_table.py -->", "<!-- failures end -->"
PROGRAMS = {"claude": "Claude Code", "codex": "Codex"}
K = FailureKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One program in one situation."""

    kind: FailureKind | None
    """What its run is called; None: it succeeds."""
    scenario: str
    """What the stub model does."""
    looks: str
    """How it looks: what the outcome's reason says; for a success, what the program does about it."""
    asks: int | None = None
    """How often the model was asked in each run; None where that depends on moments."""
    sign_in: str = "key"
    """`key`, `subscription` or `nobody`."""
    options: tuple[str, ...] = ()
    """Options of `wk run`."""
    settings: tuple[tuple[str, str], ...] = ()
    """Options of the harness that differ from those of the other cells."""
    act: str = ""
    """What another process does to the agent while it works: `kill` or `terminate`."""

    @property
    def runs(self) -> int:
        """How many runs it comes to where one further one is allowed."""
        if self.kind is None or self.waits or ROWS[self.kind].defers:
            return 1
        return 2 if ROWS[self.kind].retried else 1

    @property
    def waits(self) -> bool:
        """It closes the way of all tasks of its account, and waits with them until the service answers."""
        return self.kind in SERVICE_KINDS


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One situation."""

    what: str
    claude: Cell | str
    """A text: why there is no such situation."""
    codex: Cell | str
    alone: bool = False
    """It ends what its account can do for others, or its settings are its own: it needs an installation for itself."""


ROWS_OF_PAGE: tuple[Row, ...] = (
    Row(
        what="the key is refused (401)",
        claude=Cell(kind=K.SIGNED_OUT, scenario="bad_key", looks="Invalid API key"),
        codex=Cell(kind=K.SIGNED_OUT, scenario="bad_key", looks="unexpected status 401 Unauthorized"),
        alone=True,
    ),
    Row(
        what="no sign-in",
        claude=Cell(kind=K.SIGNED_OUT, scenario="text", sign_in="nobody", looks="Not logged in", asks=0),
        codex=Cell(kind=K.SIGNED_OUT, scenario="text", sign_in="nobody", looks="Missing environment variable", asks=0),
        alone=True,
    ),
    Row(
        what="the account may not (403)",
        claude=Cell(kind=K.SIGNED_OUT, scenario="forbidden", looks="Failed to authenticate", asks=1),
        codex=Cell(kind=K.SIGNED_OUT, scenario="forbidden", looks="unexpected status 403 Forbidden", asks=2),
        alone=True,
    ),
    Row(
        what="the subscription's limit is used up",
        claude=Cell(
            kind=K.QUOTA, scenario="limit", sign_in="subscription", looks="You've hit your 5-hour limit", asks=1
        ),
        codex=Cell(kind=K.QUOTA, scenario="limit", looks="hit your usage limit", asks=1),
        alone=True,
    ),
    Row(
        what="the credit is used up",
        claude=Cell(kind=K.QUOTA, scenario="credit", looks="Credit balance is too low", asks=1),
        codex=Cell(kind=K.QUOTA, scenario="credit", looks="Quota exceeded", asks=1),
        alone=True,
    ),
    Row(
        what="too many requests (429), forever",
        claude=Cell(kind=K.OVERLOADED, scenario="rate_forever", looks="429", asks=2),
        codex=Cell(kind=K.OVERLOADED, scenario="rate_forever", looks="last status: 429", asks=2),
    ),
    Row(
        what="overloaded (529), once",
        claude=Cell(kind=None, scenario="overloaded_once", looks="the program tries again by itself", asks=4),
        codex=Cell(kind=None, scenario="overloaded_once", looks="the program tries again by itself", asks=4),
    ),
    Row(
        what="overloaded (529), forever",
        claude=Cell(kind=K.OVERLOADED, scenario="overloaded_forever", looks="529", asks=2),
        codex=Cell(kind=K.OVERLOADED, scenario="overloaded_forever", looks="unexpected status 529", asks=2),
    ),
    Row(
        what="overloaded (529) again and again, with an Opus model",
        claude=Cell(
            kind=K.OVERLOADED,
            scenario="overloaded_forever",
            looks="Repeated 529",
            asks=3,
            options=("--model", "claude-opus-4-1"),
            settings=(("max_retries", "5"),),
        ),
        codex="it counts tries only",
        alone=True,
    ),
    Row(
        what="unavailable (503), forever",
        claude=Cell(kind=K.OVERLOADED, scenario="unavailable_forever", looks="503", asks=2),
        codex=Cell(kind=K.OVERLOADED, scenario="unavailable_forever", looks="unexpected status 503", asks=2),
    ),
    Row(
        what="overloaded in mid-answer, always",
        claude=Cell(
            kind=None,
            scenario="stream_overloaded",
            looks="the program asks for an answer without a stream",
            options=("--expect", "answer"),
        ),
        codex=Cell(kind=K.OVERLOADED, scenario="stream_overloaded", looks="Selected model is at capacity", asks=1),
    ),
    Row(
        what="no service there",
        claude=Cell(kind=K.NETWORK, scenario="(nobody)", looks="ECONNREFUSED", asks=0),
        codex=Cell(
            kind=K.NETWORK,
            scenario="(nobody)",
            looks="error sending request",
            asks=0,
            settings=(("base_url", "http://127.0.0.1:9"),),
        ),
        alone=True,
    ),
    Row(
        what="the connection is reset",
        claude=Cell(kind=K.NETWORK, scenario="reset", looks="ECONNRESET", asks=2),
        codex=Cell(kind=K.NETWORK, scenario="reset", looks="stream disconnected before completion", asks=2),
    ),
    Row(
        what="the connection is reset in mid-answer, always",
        claude=Cell(kind=K.NETWORK, scenario="reset_stream", looks="ECONNRESET"),
        codex=Cell(kind=K.NETWORK, scenario="reset_stream", looks="stream disconnected before completion", asks=2),
    ),
    Row(
        what="the answer ends in its middle, once",
        claude=Cell(kind=None, scenario="truncate_once", looks="the program asks again"),
        codex=Cell(kind=None, scenario="truncate_once", looks="the program asks again", asks=4),
    ),
    Row(
        what="the answer ends in its middle, always",
        claude=Cell(
            kind=None,
            scenario="truncate_forever",
            looks="the program asks for an answer without a stream",
            options=("--expect", "answer"),
        ),
        codex=Cell(
            kind=K.NETWORK, scenario="truncate_forever", looks="stream closed before response.completed", asks=2
        ),
    ),
    Row(
        what="a web page instead of an answer",
        claude=Cell(kind=K.NETWORK, scenario="garbage", looks="empty or malformed response"),
        codex=Cell(kind=K.NETWORK, scenario="garbage", looks="stream closed before response.completed", asks=2),
    ),
    Row(
        what="no answer comes, until the deadline",
        claude=Cell(kind=K.DEADLINE, scenario="hang", looks="deadline", options=("--deadline", "7s"), asks=1),
        codex=Cell(kind=K.DEADLINE, scenario="hang", looks="deadline", options=("--deadline", "7s"), asks=1),
    ),
    Row(
        what="the answer stops in its middle, until the deadline",
        claude=Cell(kind=K.DEADLINE, scenario="hang_stream", looks="deadline", options=("--deadline", "7s")),
        codex=Cell(kind=K.DEADLINE, scenario="hang_stream", looks="deadline", options=("--deadline", "7s"), asks=1),
    ),
    Row(
        what="the conversation is too long",
        claude=Cell(kind=K.CONTEXT_FULL, scenario="too_long", looks="Prompt is too long"),
        codex=Cell(kind=K.CONTEXT_FULL, scenario="too_long", looks="ran out of room", asks=1),
    ),
    Row(
        what="the request is refused (400)",
        claude=Cell(kind=K.BAD_REQUEST, scenario="bad_request", looks="API Error: 400"),
        codex=Cell(kind=K.BAD_REQUEST, scenario="bad_request", looks="The request is malformed", asks=1),
    ),
    Row(
        what="there is no such model (404)",
        claude=Cell(kind=K.BAD_REQUEST, scenario="no_model", looks="issue with the selected model"),
        codex=Cell(kind=K.BAD_REQUEST, scenario="no_model", looks="The model does not exist", asks=1),
    ),
    Row(
        what="the answer is too long, always",
        claude=Cell(kind=K.UNKNOWN, scenario="max_tokens", looks="output token maximum"),
        codex=Cell(kind=K.UNKNOWN, scenario="max_tokens", looks="reason: max_output_tokens", asks=1),
    ),
    Row(
        what="the model's safeguards stop it",
        claude=Cell(kind=K.REFUSED, scenario="refusal", looks="safeguards flagged"),
        codex=Cell(kind=K.REFUSED, scenario="refusal", looks="reason: content_filter", asks=2),
    ),
    Row(
        what="the limit of turns is reached",
        claude=Cell(kind=K.TURN_LIMIT, scenario="loop", looks="maximum number of turns", asks=6),
        codex="it has no such limit",
    ),
    Row(
        what="the limit of money is reached",
        claude=Cell(
            kind=K.BUDGET,
            scenario="loop",
            looks="maximum budget",
            settings=(("max_budget_usd", "0.000001"),),
        ),
        codex="it has no such limit, and reports no prices",
        alone=True,
    ),
    Row(
        what="the agent may not do what it needs",
        claude=Cell(kind=K.PERMISSION_DENIED, scenario="elsewhere", looks="not allowed to use Write", asks=2),
        codex=Cell(kind=K.PERMISSION_DENIED, scenario="elsewhere", looks="writing outside of the project", asks=2),
    ),
    Row(
        what="the sandbox cannot be set up",
        claude="it has none",
        codex=Cell(
            kind=K.SANDBOX,
            scenario="work",
            looks="sandbox does not work here",
            asks=3,
            settings=(("program", "boxed"),),
        ),
        alone=True,
    ),
    Row(
        what="it says and does nothing",
        claude=Cell(kind=K.NOTHING_RECORDED, scenario="nothing", looks="said and did nothing"),
        codex=Cell(kind=K.NOTHING_RECORDED, scenario="nothing", looks="said and did nothing", asks=1),
    ),
    Row(
        what="it says that it is done, and did nothing",
        claude=Cell(kind=K.NOTHING_RECORDED, scenario="talk", looks="called no tool and changed nothing", asks=1),
        codex=Cell(kind=K.NOTHING_RECORDED, scenario="talk", looks="called no tool and changed nothing", asks=1),
    ),
    Row(
        what="it ends by asking something",
        claude=Cell(kind=K.ASKED, scenario="asks", looks="Which file do you mean?", asks=2),
        codex=Cell(kind=K.ASKED, scenario="asks", looks="Which file do you mean?", asks=2),
    ),
    Row(
        what="the agent is killed (SIGKILL)",
        claude=Cell(kind=K.CRASH, scenario="held_kill", act="kill", looks="signal 9", asks=2),
        codex=Cell(kind=K.CRASH, scenario="held_kill", act="kill", looks="signal 9", asks=2),
    ),
    Row(
        what="another process ends it (SIGTERM)",
        claude=Cell(kind=K.INTERRUPTED, scenario="held_term", act="terminate", looks="signal 15", asks=2),
        codex=Cell(kind=K.INTERRUPTED, scenario="held_term", act="terminate", looks="signal 15", asks=2),
    ),
)


def cells(program: str, *, alone: bool) -> list[tuple[str, Cell]]:
    """The cells of a program that need an installation for themselves, or those that need none."""
    found: list[tuple[str, Cell]] = []
    for row in ROWS_OF_PAGE:
        cell = row.claude if program == "claude" else row.codex
        if isinstance(cell, Cell) and (row.alone or cell.waits) == alone:
            found.append((row.what, cell))
    return found


def table() -> str:
    """The rows as the page has them."""
    lines = [f"| what happens | {' | '.join(PROGRAMS.values())} |", "| --- | --- | --- |"]
    lines += [f"| {row.what} | {_cell_text(row.claude)} | {_cell_text(row.codex)} |" for row in ROWS_OF_PAGE]
    return "\n".join(lines)


def _cell_text(cell: Cell | str) -> str:
    if isinstance(cell, str):
        return f"– ({cell})"
    if cell.kind is None:
        return f"succeeds, 1 run: {cell.looks}"
    asks = "" if cell.asks is None else f", asked {cell.asks}×"
    runs = "1 run" if cell.runs == 1 else f"{cell.runs} runs"
    runs = f"{runs}, then it waits" if cell.waits else runs
    return f"`{cell.kind}`, {runs}{asks}: “{cell.looks}”"


def with_table(page: str) -> str:
    """The page with its table written anew."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{table()}\n\n{END}{after}"


if __name__ == "__main__":
    _ = sys.stdout.write(f"{PAGE}\n")
    _ = PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
