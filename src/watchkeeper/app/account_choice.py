"""Which account a task works under, and what that account makes of its environment."""

from collections.abc import Mapping
from dataclasses import replace

from watchkeeper.app.accounts import HomeGone, implicit, of_task, require, unknown, with_keys
from watchkeeper.app.parts import Parts
from watchkeeper.app.profiles import Limits, Wanted
from watchkeeper.domain.account import KEY, OWN, Account
from watchkeeper.domain.model import Task, TaskSpec
from watchkeeper.domain.plain_text import clean
from watchkeeper.environment import allowed
from watchkeeper.errors import BadTask, NoDatabase, StateDirectoryUnusable, UsageError
from watchkeeper.ports.sign_in import signs_in


def split(typed: str | None, harness: str | None) -> tuple[str | None, str | None]:
    """The harness and the account's name, of an account typed as `NAME` or `HARNESS:NAME` and a harness that was named or not.

    Raises:
        UsageError: they do not fit together.
    """
    if typed is None or ":" not in typed:
        return harness, typed
    named, _, name = typed.partition(":")
    if harness not in {None, named}:
        raise UsageError(
            f"The account {clean(typed)[:80]} is not one of the harness {harness}.", hint="Name one of them only."
        )
    return named, name


def choose(
    parts: Parts, environ: Mapping[str, str], spec: TaskSpec, typed: str | None
) -> tuple[TaskSpec, Mapping[str, str], tuple[str, ...]]:
    """The task under the account that was typed, else the configured one, else the user's own, with a key if the agent gets one.

    Returns the caller's environment with it, and which of that the account adds.

    Raises:
        NotFound: there is no such account.
        BadTask: a variable that the account names is not set.
    """
    _, name = split(typed or parts.settings.harness_account(spec.harness), spec.harness)
    chosen = replace(spec, account=name or (KEY if _keys(parts, environ, spec) else OWN))
    changed, names = environment(parts, environ, chosen)
    return chosen, changed, names


def environment(parts: Parts, environ: Mapping[str, str], spec: TaskSpec) -> tuple[Mapping[str, str], tuple[str, ...]]:
    """The caller's environment with the keys of a task's account, and the names under which it has them. Raises as `choose`."""
    if spec.account == OWN:
        return environ, ()
    if spec.account == KEY:
        keys = _keys(parts, environ, spec)
        if not keys:
            raise BadTask(
                f"Account {spec.account_id} works with a key of your environment, and none is set.",
                hint=f"Set one first, or use your sign-in: --account {spec.harness}:{OWN}",
            )
        return environ, keys
    return with_keys(find(parts, spec.account_id), environ)


def applied(parts: Parts, spec: TaskSpec, captured: Mapping[str, str]) -> tuple[Mapping[str, str], str]:
    """The captured environment with the account of a task applied, and the account's home; empty for the user's own.

    A home that is gone changes nothing here: the task waits for it, as for a sign-in.
    """
    account = find(parts, spec.account_id)
    where = parts.accounts.home(account) or ""
    try:
        return parts.accounts.apply(parts.harness(spec.harness), account, captured, spec.environment_names), where
    except HomeGone:
        return captured, where


def wanted(
    parts: Parts,
    spec: TaskSpec,
    captured: Mapping[str, str],
    options: Mapping[str, str],
    limits: Limits,
    caller: Mapping[str, str] | None = None,
) -> Wanted:
    """What the launch profile of a task under its account is compiled from, see `Wanted`. Raises NotFound where there is no such account."""
    environment, home = applied(parts, spec, captured)
    return Wanted(
        environment=environment, options=options, limits=limits, machine=parts.machine, home=home, caller=caller
    )


def require_no_keys(parts: Parts, environ: Mapping[str, str], task: Task, spec: TaskSpec) -> None:
    """Refuse another account for a task whose environment is kept already, if one of the two has variables of its own.

    Raises:
        BadTask: what was kept lacks those of the new one, or holds those of the old one, which no other account may work with.
    """
    _, keys = environment(parts, environ, spec)
    hint = f"wk cancel {task.id}, and hand it over again under that account."
    if keys:
        named = ", ".join(keys)
        raise BadTask(
            f"Account {spec.account_id} takes {named} from the environment, which was kept without it.", hint=hint
        )
    was = parts.store.read(lambda tx: of_task(tx, task))
    if was is not None and (was.variables or was.name == KEY):
        what = "a key of your environment" if was.name == KEY else ", ".join(was.names)
        raise BadTask(f"The environment was kept with {what} of account {was.id}.", hint=hint)


def find(parts: Parts, account_id: str) -> Account:
    """The account of that id. Raises NotFound."""
    if found := implicit(account_id):
        return found
    try:
        store = parts.store
    except (NoDatabase, StateDirectoryUnusable):
        raise unknown((), account_id) from None
    return store.read(lambda tx: require(tx, account_id))


def named(parts: Parts, typed: str) -> Account:
    """The account that a person names as `HARNESS:NAME`, or as `HARNESS` for the own one.

    Raises:
        NotFound: there is none.
        UnknownHarness: there is no such harness.
    """
    harness, _, name = typed.partition(":")
    _ = parts.harness(harness)
    return find(parts, f"{harness}:{name or OWN}")


def _keys(parts: Parts, environ: Mapping[str, str], spec: TaskSpec) -> tuple[str, ...]:
    """The keys in the caller's environment that the agent would get."""
    harness = parts.harness(spec.harness)
    known = signs_in(harness)
    given = {name for name in environ if allowed(name, harness)} | set(spec.environment_names)
    return tuple(name for name in (known.key_variables if known else ()) if name in given and environ.get(name))
