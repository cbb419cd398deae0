"""Secrets: refused where they would be stored, and hidden in everything that leaves a run.

What a run's secrets are is read from its execution directory, whose spec holds the agent's environment (0600) as long as there is a log to show. The
environment that was kept for the task is gone when the task ends.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from watchkeeper.domain.model import Changes, Leftover, Run, TaskSpec, Trace
from watchkeeper.domain.profile import LaunchProfile
from watchkeeper.domain.working_directory import WorkingDirectory
from watchkeeper.errors import BadTask
from watchkeeper.ports.runtime import Executions, SweepReport
from watchkeeper.redaction.engine import Redactor
from watchkeeper.redaction.known_tokens import looks_random, sightings
from watchkeeper.redaction.variables import Secret, is_plain, is_secret_name, secrets_of

_HINT = "Secrets are not stored: pass it on as a variable (--env NAME), or keep it in a file that the agent reads."
_FLAG = re.compile(r"--?([A-Za-z][\w-]*)(?:=(.*))?", re.DOTALL)
_SETTING = re.compile(r"([A-Za-z_]\w*)=(.+)", re.DOTALL)


def redactor_of(executions: Executions, run: Run, spec: TaskSpec) -> Redactor:
    """What hides a run's secrets; where its environment cannot be read, only what looks like a secret."""
    environment = executions.environment(run)
    if environment is None:
        return Redactor()
    return Redactor(secrets_of(environment, {*spec.environment_names, *executions.asked(run)}))


def hide_trace(redactor: Redactor, trace: Trace) -> Trace:
    """The same trace, its words without secrets."""
    return replace(
        trace,
        text=redactor.text(trace.text),
        reason=redactor.text(trace.reason),
        harness_session=_or_none(redactor, trace.harness_session),
        model=_or_none(redactor, trace.model),
    )


def hide_changes(redactor: Redactor, changes: Changes | None) -> Changes | None:
    """The same changes; a file's name, a commit's title or a branch may hold a secret. With its branch hidden the next try needs a person, which is safe."""
    if changes is None:
        return None
    return replace(
        changes,
        why_unknown=redactor.text(changes.why_unknown),
        files=tuple(
            replace(file, path=redactor.text(file.path), old=None if file.old is None else redactor.text(file.old))
            for file in changes.files
        ),
        ignored=tuple(redactor.text(path) for path in changes.ignored),
        left_out=tuple(redactor.text(path) for path in changes.left_out),
        not_kept=redactor.text(changes.not_kept),
        commits=tuple(redactor.text(commit) for commit in changes.commits),
        left=None if changes.left is None else _hide_place(redactor, changes.left),
    )


def _hide_place(redactor: Redactor, left: WorkingDirectory) -> WorkingDirectory:
    ref = _or_none(redactor, left.ref)
    if ref == left.ref:
        return left
    return replace(left, ref=ref, head_file=None)


def hide_leftovers(redactor: Redactor, leftovers: Sequence[Leftover]) -> tuple[Leftover, ...]:
    """The same processes; a command line may hold a secret."""
    return tuple(replace(leftover, command=redactor.text(leftover.command)) for leftover in leftovers)


def hide_sweep(redactor: Callable[[], Redactor], sweep: SweepReport | None) -> SweepReport | None:
    """The same report; it names command lines."""
    if sweep is None or not (sweep.ended or sweep.spared):
        return sweep
    hide = redactor().text
    return replace(sweep, ended=tuple(map(hide, sweep.ended)), spared=tuple(map(hide, sweep.spared)))


def refuse_secrets(
    spec: TaskSpec,
    environment: Mapping[str, str],
    caller: Mapping[str, str] | None = None,
    asked: Sequence[str] = (),
) -> None:
    """Refuse a task that would store a secret.

    Args:
        spec: the task, all of which is stored.
        environment: what is captured for the agent.
        caller: the caller's whole environment, of which only variables with a secret's name count.
        asked: names that the task's account asks for.

    Raises:
        BadTask: it holds what looks like a secret, or the value of a variable that is one. Its sentence says where and what kind, never the value.
    """
    known = [*secrets_of(environment, {*spec.environment_names, *asked}), *_of_caller(caller or {})]
    _refuse(_places(spec), known)
    flag = _flag_with_secret(spec.argv)
    if flag is not None:
        raise BadTask(f"The command line holds what looks like a secret, given with {flag}.", hint=_HINT)


def refuse_profile(profile: LaunchProfile, environment: Mapping[str, str]) -> None:
    """Refuse a launch profile that would store a secret: in an option, in a variable that the harness sets, or on the command line.

    Args:
        profile: what would be stored.
        environment: what is captured for the agent.

    Raises:
        BadTask: it holds one; says where, never the value.
    """
    options = [(f"The option {name}", name, value) for name, value in profile.options]
    variables = [(f"The variable {name} of the harness", name, value or "") for name, value in profile.environment]
    for where, name, value in (*options, *variables):
        if is_secret_name(name) and looks_random(value):
            raise BadTask(f"{where} holds what looks like a secret.", hint=_HINT)
    words = (("The command line", word) for word in profile.argv if word is not None)
    # Only variables with a secret's name count: a word that was merely passed on, such as a region, may well stand in an option too.
    _refuse((*((where, value) for where, _, value in (*options, *variables)), *words), _of_caller(environment))


def refuse_words(places: Iterable[tuple[str, str]], caller: Mapping[str, str]) -> None:
    """Refuse typed words that would be stored, each with where it stands, if one holds a secret. Raises BadTask as `refuse_secrets`."""
    _refuse(places, _of_caller(caller))


def refuse_values(variables: Sequence[str], caller: Mapping[str, str]) -> None:
    """Refuse `NAME=FROM` where FROM is not a variable that is set and looks like the secret itself. Raises BadTask."""
    refuse_words((("The name of a variable", variable) for variable in variables), caller)
    for name, _, source in (variable.partition("=") for variable in variables):
        if source and source not in caller and looks_random(source):
            raise BadTask(
                f"What {name} is to be taken from looks like a secret, and no variable is called so.", hint=_HINT
            )


def _refuse(places: Iterable[tuple[str, str]], known: Sequence[Secret]) -> None:
    redactor = Redactor(known)
    for where, text in places:
        kind = _secret_names(text, redactor)
        if kind is not None:
            raise BadTask(f"{where} holds {kind}.", hint=_HINT)


def _of_caller(caller: Mapping[str, str]) -> list[Secret]:
    held = {name: value for name, value in caller.items() if is_secret_name(name) and not is_plain(value)}
    return secrets_of(held)


def _places(spec: TaskSpec) -> Iterator[tuple[str, str]]:
    """Everything that the caller typed and that is stored. The task before its title, which is made of it."""
    yield from (("The command line", word) for word in spec.argv)
    yield "The task", spec.prompt
    yield "The title", spec.title
    yield "The model's name", spec.model or ""
    yield "The directory's name", spec.cwd
    yield "The project's name", spec.project
    if spec.worktree is not None:
        yield "The branch's name", spec.worktree.branch
        yield "The base's name", spec.worktree.base_name
    yield from (("A check", line) for line in spec.checks)
    yield from (("A set-up", line) for line in spec.setup)
    yield from (("A teardown", line) for line in spec.teardown)
    yield from (("A label", label) for label in spec.labels)
    yield from (("A variable's name", name) for name in spec.environment_names)


def _secret_names(text: str, redactor: Redactor) -> str | None:
    known = redactor.first(text)
    if known is not None:
        return f"the value of the variable '{known}'"
    seen = sightings(text)
    return f"what looks like a secret ({seen[0].name})" if seen else None


def _flag_with_secret(argv: Sequence[str]) -> str | None:
    """The flag or variable of a command line that a secret is given with."""
    for number, word in enumerate(argv):
        flag, setting = _FLAG.fullmatch(word), _SETTING.fullmatch(word)
        if flag is not None and is_secret_name(flag[1].replace("-", "_")):
            value = flag[2] if flag[2] is not None else next(iter(argv[number + 1 : number + 2]), "")
            if looks_random(value) and not value.startswith("-"):
                return f"--{flag[1]}" if word.startswith("--") else f"-{flag[1]}"
        elif setting is not None and is_secret_name(setting[1]) and looks_random(setting[2]):
            return setting[1]
    return None


def _or_none(redactor: Redactor, text: str | None) -> str | None:
    return None if text is None else redactor.text(text)
