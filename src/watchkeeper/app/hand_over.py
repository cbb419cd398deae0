"""Hand tasks over: from what a person asks for to tasks that can be added to the queue.

    HandOverRequest ──known──▶ Handed, where the same key made the task before
                    ──check──▶ Checked ──add.hand_over──▶ Handed

`check` decides everything and writes nothing, so a face can show the decision before it continues. Every face hands over through here.
"""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime
from functools import cache, partial

from watchkeeper.app import account_choice, harness_choice, machines, worktree_plan
from watchkeeper.app.add import Checked, Handed, check, handed_over, refuse_empty
from watchkeeper.app.parts import Caller, Parts
from watchkeeper.app.profiles import check_isolation, chosen, compile_profile
from watchkeeper.app.relations import check_spec
from watchkeeper.app.secrets import refuse_secrets, refuse_words
from watchkeeper.app.views.lookup import find
from watchkeeper.app.working_directories import present
from watchkeeper.app.worktree_plan import WorktreeChoice
from watchkeeper.domain import handover
from watchkeeper.domain.model import OnLost, Task, TaskSpec
from watchkeeper.domain.plain_text import clean
from watchkeeper.domain.profile import expected_by_default
from watchkeeper.environment import asked, capture, left_out
from watchkeeper.errors import BadTask, KeyTaken, WatchkeeperError
from watchkeeper.ports.harness import Program, declared, find_program
from watchkeeper.settings import Settings

MOST = 1000
"""How many tasks are handed over at once: they are added in one transaction, and others wait for it."""

TITLE = 60
"""Characters of a title that is made from the task's text."""

_SETTINGS = ("harness", "model", "deadline", "silence", "retries", "on_lost", "leftovers")
"""Wishes that win over a setting of the same name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HandOverRequest:
    """What a person asks for. None and empty values leave the choice to the settings, as the options of `wk run` do. Lengths of time are seconds."""

    prompt: str = ""
    argv: tuple[str, ...] = ()
    """A command line to run instead of an agent program: the harness is `command` then."""
    cwd: str
    """The directory to work in, absolute."""
    harness: str | None = None
    account: str | None = None
    """`NAME` or `HARNESS:NAME`."""
    isolation: str | None = None
    rights: str | None = None
    options: tuple[tuple[str, str], ...] = ()
    model: str | None = None
    title: str | None = None
    env: tuple[str, ...] = ()
    """Variables to pass on to the agent, by name."""
    deadline: float | None = None
    silence: float | None = None
    expect: str | None = None
    retries: int | None = None
    on_lost: str | None = None
    leftovers: str | None = None
    after: tuple[str, ...] = ()
    """The tasks to wait for, each by its id or the beginning of it."""
    not_before: datetime | None = None
    not_before_typed: str | None = None
    """The words that `not_before` was read from. A key stands for the words, whatever time they mean today."""
    priority: int | None = None
    machine: str | None = None
    """`machines.ANY`, or what `machines.find` understands."""
    labels: tuple[str, ...] = ()
    project: str | None = None
    shared: bool | None = None
    checks: tuple[str, ...] = ()
    """Command lines for the shell that decide after the agent; none: those of the settings."""
    setup: tuple[str, ...] = ()
    """Command lines for the shell that prepare the task's worktree; none: those of the settings."""
    teardown: tuple[str, ...] = ()
    """Command lines for the shell that clear up before the worktree is removed; none: those of the settings."""
    worktree: bool | None = None
    """In a worktree of its own, or expressly where it is handed over; None: as the settings say."""
    base: str | None = None
    """The commit that the worktree starts at; None: what is checked out."""
    branch: str | None = None
    """The branch that is made with the worktree; None: one is named after the task."""
    include_changes: bool | None = None
    """The worktree begins with what is not committed in the checkout."""
    scratch: bool | None = None
    """In an empty directory of its own; `cwd` only says which settings hold."""
    key: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberedRequest:
    """One task of many that are handed over together."""

    number: int
    """Its line in the file that they come from; errors name it."""
    request: HandOverRequest
    name: str | None = None
    """What `after` of later lines calls it."""


class HandOver:
    """Checks hand-overs of one caller. Settings, git and programs are looked up once, however many tasks there are."""

    def __init__(self, parts: Parts, caller: Caller, ask: harness_choice.Ask | None = None) -> None:
        """`ask`: asks the person for a harness where it is not clear; None: that is refused."""
        self._parts, self._caller = parts, caller
        self._settings = cache(parts.settings_in)
        self._harness = cache(partial(harness_choice.choose, parts, caller.environ, ask))
        self._checkout = cache(parts.workspace.checkout)
        self._present = cache(partial(present, parts))
        self._programs: dict[object, Program] = {}

    def known(self, request: HandOverRequest) -> Handed | None:
        """The task that this very hand-over made before, if it did, whatever has become of its program and directory meanwhile.

        Raises:
            KeyTaken: its key stands for another hand-over.
        """
        request = _normal(request)
        before = self._keyed(request.key or "", _digest(request))
        return None if before is None else Handed(task=before, already=True, key=request.key or "")

    def check(self, request: HandOverRequest) -> Checked:
        """Check one task without storing it. Raises WatchkeeperError where it cannot be accepted."""
        return self._checked(_normal(request), {})

    def check_all(self, lines: Sequence[NumberedRequest]) -> list[Checked]:
        """Check many tasks, before any of them is stored.

        Raises:
            BadTask: there is none, or there are too many.
            WatchkeeperError: one cannot be accepted; says which line.
        """
        if not lines:
            raise BadTask("There is no task in the file.", hint="Write one on each line.")
        if len(lines) > MOST:
            raise BadTask(f"{len(lines)} tasks are too many at once.", hint=f"Hand over at most {MOST} at a time.")
        return list(self._lines(lines))

    def already(self, checked: Checked) -> Task | None:
        """The task that handing over would give because its key made it before. Raises KeyTaken."""
        return self._keyed(checked.key, checked.key_digest)

    def _keyed(self, key: str, digest: str) -> Task | None:
        store = self._parts.existing_store if key else None
        return None if store is None else store.read(lambda tx: handed_over(tx, key, digest))

    def _lines(self, lines: Sequence[NumberedRequest]) -> Iterator[Checked]:
        ids: dict[str, str] = {}
        keys: dict[str, tuple[int, str]] = {}
        names = {line.name for line in lines}
        for line in lines:
            _refuse_forward(line, ids, names)
            try:
                checked = self._checked(_normal(line.request), ids)
            except WatchkeeperError as error:
                error.args = (f"Line {line.number}: {error}",)
                raise
            if line.name is not None:
                if line.name in ids:
                    raise BadTask(
                        f"Line {line.number}: two lines are named '{clean(line.name)[:60]}'.", hint="Rename one."
                    )
                ids[line.name] = checked.id or self._parts.ids.task()
                checked = replace(checked, id=ids[line.name])
            first = keys.setdefault(checked.key, (line.number, checked.key_digest))
            _refuse_doubled(first, line.number, checked.key, checked.key_digest)
            yield checked

    def _checked(self, request: HandOverRequest, ids: Mapping[str, str]) -> Checked:
        """`ids`: of the tasks that are handed over with it, by the names that `after` uses."""
        parts, caller = self._parts, self._caller
        refuse_empty(request.prompt, request.argv)
        if request.key is not None:
            refuse_words([("The key", request.key)], caller.environ)  # a key is stored and shown
        flags = _flags(request)
        settings = self._settings(request.cwd, flags)
        spec = self._spec(request, settings, ids)
        harness = parts.harness(spec.harness)
        check_isolation(harness, request.isolation)
        spec, environ, keys = account_choice.choose(parts, caller.environ, spec, request.account)
        spec = machines.bind(parts, spec, request.machine)
        check_spec(spec, parts.clock.now())
        captured = capture(environ, (*spec.environment_names, *keys), harness)
        given = dict(request.options)
        options = chosen(
            harness, settings.harness_options(spec.harness, declared(harness).options), request.rights, given
        )
        limits = replace(parts.limits, inherits=caller.inherits)
        wanted = account_choice.wanted(parts, spec, captured, options, limits, caller.environ)
        check(harness, spec, captured, caller.environ, keys)
        # A task may name a program of its own.
        looked = (request.cwd, flags, spec.harness, given.get("program"), spec.argv)
        if looked not in self._programs:
            self._programs[looked] = find_program(harness, spec, wanted.environment, options)
        profile = compile_profile(harness, spec, self._programs[looked], wanted)
        checked = Checked(
            spec=replace(spec, expect=spec.expect or expected_by_default(profile)),
            profile=profile,
            environment=captured,
            by=caller.by,
            not_passed=left_out(caller.environ, (*spec.environment_names, *keys), harness),
            hidden_harness=parts.hidden_harness(spec.harness),
            machine=parts.machine,
            place=self._present(spec.cwd),
            key=request.key or "",
            key_digest="" if request.key is None else _digest(request),
        )
        return self._at_its_place(request, settings, checked)

    def _at_its_place(self, request: HandOverRequest, settings: Settings, checked: Checked) -> Checked:
        """The task where it works: in the checkout, in a worktree or a scratch directory of its own, or in a worktree if the checkout is busy."""
        choice = worktree_plan.wanted(self._parts, request, settings, checked.spec)
        if request.setup and choice in {WorktreeChoice.CHECKOUT, WorktreeChoice.SCRATCH}:
            raise BadTask("A set-up prepares a new worktree, and this task gets none.", hint="Add --worktree.")
        if request.teardown and choice in {WorktreeChoice.CHECKOUT, WorktreeChoice.SCRATCH}:
            raise BadTask("A teardown clears up a worktree, and this task gets none.", hint="Add --worktree.")
        around = replace(
            checked,
            spec=replace(
                checked.spec,
                setup=_lines("setup", request.setup or settings.worktree_setup),
                teardown=_lines("teardown", request.teardown or settings.worktree_teardown),
            ),
        )
        match choice:
            case WorktreeChoice.CHECKOUT:
                return checked
            case WorktreeChoice.SCRATCH:
                task_id = self._parts.ids.task()
                spec = worktree_plan.in_scratch(self._parts, checked.spec, request.project, task_id)
                return replace(checked, spec=spec, id=task_id, place=None)
            case WorktreeChoice.WORKTREE:
                return self._in_worktree(request, around)
            case WorktreeChoice.WORKTREE_IF_BUSY:
                return self._apart_if_busy(request, checked, around)

    def _apart_if_busy(self, request: HandOverRequest, checked: Checked, around: Checked) -> Checked:
        """The task with the worktree that it gets if its checkout is busy. Where none can be made, it waits for the checkout.

        `around`: the same task with what is only done in a worktree.
        """
        try:
            apart = self._in_worktree(request, around)
        except BadTask:
            return checked
        return replace(checked, id=apart.id, apart=apart)

    def _in_worktree(self, request: HandOverRequest, checked: Checked) -> Checked:
        """The same task in a worktree of its own. Its directory is looked at when it is made."""
        task_id = self._parts.ids.task()
        spec, notes = worktree_plan.planned(self._parts, request, checked.spec, task_id)
        refuse_secrets(spec, checked.environment, self._caller.environ)
        profile = checked.profile
        if spec.argv and "/" in spec.argv[0] and not spec.argv[0].startswith("/"):
            profile = replace(profile, program="")  # the one in the worktree is run
        return replace(checked, spec=spec, profile=profile, id=task_id, place=None, notes=notes)

    def _spec(self, request: HandOverRequest, settings: Settings, ids: Mapping[str, str]) -> TaskSpec:
        checkout, checks = self._checkout(request.cwd), _lines("check", request.checks or settings.run_check)
        project = request.project if request.project is not None else checkout.project if checkout is not None else ""
        return TaskSpec(
            prompt=request.prompt,
            title=clean(request.title) if request.title else title(request.prompt, request.argv),
            harness=settings.run_harness or self._harness(),
            model=settings.run_model,
            cwd=request.cwd,
            argv=request.argv,
            environment_names=asked(self._caller.environ, settings.environment_names, request.env),
            deadline_s=settings.run_deadline_s,
            silence_s=settings.run_silence_s,
            expect=request.expect or "",
            max_attempts=settings.run_retries + 1,
            on_lost=OnLost(settings.run_on_lost),
            leftovers=settings.run_leftovers,
            priority=request.priority or 0,
            isolation=request.isolation,
            project=project,
            checkout=None if checkout is None or request.shared else checkout.top,
            after=task_ids(self._parts, request.after, ids),
            not_before=request.not_before,
            labels=tuple(dict.fromkeys(request.labels)),
            checks=checks,
            check_deadline_s=settings.check_deadline_s if checks or _around(request, settings) else None,
        )


def _around(request: HandOverRequest, settings: Settings) -> bool:
    """Whether a worktree of the task would get a set-up or a teardown."""
    return bool(request.setup or settings.worktree_setup or request.teardown or settings.worktree_teardown)


def _lines(name: str, commands: Sequence[str]) -> tuple[str, ...]:
    """The command lines, each once. Raises BadTask for one that is empty or cannot be a command line."""
    for each in commands:
        if not each.strip() or "\0" in each:
            what = "holds a NUL character" if each.strip() else "is empty"
            raise BadTask(f"A {name} {what}.", hint=f'Give the command line to run, for example --{name} "make test".')
    return tuple(dict.fromkeys(commands))


def title(prompt: str, argv: Sequence[str]) -> str:
    """The title of a task that is given none: the first line of its text, or its command line."""
    first = next((line for line in prompt.splitlines() if line.strip()), "")
    text = clean(first) or clean(shlex.join(argv))
    return text if len(text) <= TITLE else text[: TITLE - 1].rstrip() + "…"


def task_ids(parts: Parts, typed: Sequence[str], named: Mapping[str, str]) -> tuple[str, ...]:
    """The ids of the tasks that a person names, each by a name in `named`, by its id or by the beginning of its id.

    Raises:
        NoSuchTask: one is not there.
        AmbiguousId: one could be several.
    """
    return tuple(dict.fromkeys(named[each] if each in named else find(parts.existing_store, each) for each in typed))


def _normal(request: HandOverRequest) -> HandOverRequest:
    """The same request; a harness that is named by the account is named."""
    harness, account = account_choice.split(request.account, request.harness)
    return replace(request, harness=harness, account=account)


def _flags(request: HandOverRequest) -> tuple[tuple[str, object], ...]:
    """The settings that the request sets, by their keys."""
    given = {name: getattr(request, name) for name in _SETTINGS}
    if request.argv:
        given["harness"] = "command"
    return tuple((f"run.{name}", value) for name, value in given.items() if value is not None)


def _digest(request: HandOverRequest) -> str:
    """What is asked for, as it was typed."""
    given: dict[str, object] = {each.name: getattr(request, each.name) for each in fields(request)}
    typed, at = given.pop("not_before_typed"), request.not_before
    given["not_before"] = typed or (None if at is None else at.isoformat())
    given["command"] = given.pop("argv")
    del given["key"]
    return handover.digest(given)


def _refuse_doubled(first: tuple[int, str], number: int, key: str, digest: str) -> None:
    """A key stands for one content. Raises KeyTaken."""
    if key and first[1] != digest:
        names = " and ".join(handover.differing(first[1], digest))
        raise KeyTaken(
            f"Line {number}: the key '{clean(key)}' is already used in line {first[0]}, with another {names}. Nothing was added.",
            hint="Choose another key for one of them.",
        )


def _refuse_forward(line: NumberedRequest, before: Mapping[str, str], names: set[str | None]) -> None:
    """A name is never taken for the beginning of some other task's id. Raises BadTask."""
    for each in line.request.after:
        if each in names and each not in before:
            raise BadTask(
                f"Line {line.number}: no line before it is named '{clean(each)[:60]}'.",
                hint="A task waits for tasks of earlier lines: put that line first.",
            )
