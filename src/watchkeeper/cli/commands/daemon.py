"""`wk daemon`: the process that acts on what is handed over."""

from functools import partial

import click

from watchkeeper import __version__
from watchkeeper.cli import daemon as finding
from watchkeeper.cli import render
from watchkeeper.cli.call import Call
from watchkeeper.cli.command import SETTINGS, WkCommand, debug_option, json_option
from watchkeeper.cli.errors import Detached
from watchkeeper.domain.lock_state import LockState
from watchkeeper.domain.run_record import Run, RunState
from watchkeeper.domain.task_record import TaskState
from watchkeeper.errors import DatabaseUnusable, Exit, StateDirectoryUnusable, UsageError

_EACH = "Also name each run that the daemon found."
_WORKING = frozenset({RunState.STARTING, RunState.RUNNING})


@click.group(name="daemon", short_help="The process that acts: run, start, stop, status.", context_settings=SETTINGS)
def command() -> None:
    """Run, start, stop or look at the daemon.

    It is started by the commands that need it; agents outlive it.
    """


@command.command(cls=WkCommand)
@debug_option
@click.pass_obj
def run(call: Call) -> None:
    """Be the daemon, in the foreground, until told to end."""
    from watchkeeper.compose import Watchkeeper
    from watchkeeper.daemon import service
    from watchkeeper.daemon.log import Log

    parts = Watchkeeper.open(call.settings_from, call.environ, writes=True, is_daemon=True)
    service.run(parts, Log(parts.system_clock, debug=call.debug))


@command.command(cls=WkCommand)
@click.option("-v", "--verbose", is_flag=True, help=_EACH)
@json_option
@debug_option
@click.pass_obj
def start(call: Call, verbose: bool, as_json: bool) -> None:
    """Start the daemon in the background, unless it runs. Says how many runs it found, and what became of them."""
    from watchkeeper.daemon import client

    answer = client.start(call.writing)
    info = finding.running(call)
    if as_json:
        found = finding.found_by_newest(call) if answer is client.Ensured.STARTED else {}
        call.terminal.document({"answer": answer.value, **finding.plain(info), "found": found})
    elif answer is client.Ensured.STARTING:
        call.terminal.say("The daemon is still starting; `wk daemon status` shows when it is there.")
    else:
        word = "is running already" if answer is client.Ensured.ALREADY else "was started"
        call.terminal.say(f"The daemon {word}{f' (pid {info.pid})' if info else ''}.")
        if answer is client.Ensured.STARTED:
            _say_found(call, verbose=verbose)


@command.command(cls=WkCommand)
@click.option("--drain", is_flag=True, help="Wait until no agent works any more; nothing new is started.")
@click.option("--interrupt", is_flag=True, help="End all agents; their tasks are marked as interrupted.")
@json_option
@debug_option
@click.pass_obj
def stop(call: Call, drain: bool, interrupt: bool, as_json: bool) -> int:
    """End the daemon. Its agents keep working, and the next daemon takes them over.

    With --drain or --interrupt the exit code is 7 if agents work on all the same, or if that cannot be told.
    """
    if drain and interrupt:
        raise UsageError("--drain and --interrupt exclude each other.", hint="Choose one.")
    ended = False
    if call.has_state:  # the database may be out of reach, which may be why the daemon is being ended
        from watchkeeper.daemon import client

        how = "drain" if drain else "interrupt" if interrupt else "leave"
        word = {"drain": "waiting for agents to end", "interrupt": "ending agents", "leave": "ending"}[how]
        try:
            ended = client.stop(call.reading, how, on_wait=partial(_say_waiting, call, word))
        except KeyboardInterrupt:
            raise Detached("Detached; the daemon is still ending. Look: wk daemon status") from None
        call.terminal.clear_status()
    try:
        working, unsettled, waiting = _left(call)
    except DatabaseUnusable as problem:
        working = unsettled = waiting = None
        call.terminal.note(f"What is left is not known: {render.clean(str(problem))}")
    if as_json:
        call.terminal.document({"stopped": ended, "working": working, "unsettled": unsettled, "waiting": waiting})
    else:
        call.terminal.say("The daemon has ended." if ended else "No daemon runs.")
        if working:
            agents = "1 agent goes" if working == 1 else f"{working} agents go"
            call.terminal.say(
                f"{agents} on under {'its shim' if working == 1 else 'their shims'}; the next daemon takes over."
            )
        if unsettled:
            runs = "1 run is" if unsettled == 1 else f"{unsettled} runs are"
            call.terminal.say(f"{runs} not settled, and neither shim nor agent is alive; the next daemon settles.")
        if waiting:
            tasks = "1 task waits" if waiting == 1 else f"{waiting} tasks wait"
            call.terminal.say(f"{tasks} for the next daemon: wk daemon start")
    return Exit.DAEMON if (drain or interrupt) and (working, unsettled) != (0, 0) else Exit.OK


def _say_waiting(call: Call, word: str, trouble: str) -> None:
    """What the daemon is at, and what keeps it from it."""
    call.terminal.status(f"{word} … (it tries again: {render.clean(trouble)})" if trouble else f"{word} …")


def _left(call: Call) -> tuple[int, int, int]:
    """How many agents work on without a daemon, how many runs are only to be settled, and how many tasks wait for a daemon."""
    store = call.store
    if store is None:
        return 0, 0, 0
    here = call.reading.state.known_node()
    live, counts = store.read(lambda tx: (tx.runs.live(here), tx.tasks.counts()))
    begun = [run for run in live if run.state in _WORKING]
    working = sum(_may_work(call, run) for run in begun)
    return working, len(begun) - working, counts.get(TaskState.QUEUED, 0)


def _may_work(call: Call, run: Run) -> bool:
    """Whether a run that is not settled still has a shim or an agent. Where that cannot be told it is taken to have one."""
    try:
        seen = call.reading.runtime.observe(run, stop_asked=False)
    except OSError:
        return True
    return seen.lock is not LockState.FREE or call.reading.runtime.living_agent(run) is not None


@command.command(cls=WkCommand)
@json_option
@debug_option
@click.pass_obj
def status(call: Call, as_json: bool) -> int:
    """Say whether the daemon runs. Exit code 0 if it does; 7 if not, if it is still starting, or if it is stopped (SIGSTOP)."""
    info = finding.running(call) if call.has_state else None
    words = call.reading.daemon_host.last_words() if call.has_state else None
    if as_json:
        last = None if words is None else {"pid": words.pid, "at": words.at.isoformat(), "detail": words.detail}
        starting = info is None and _is_starting(call)
        more = {"starting": starting, "program": __version__, "service": _service(call), "last_words": last}
        call.terminal.document(finding.plain(info) | more)
    elif info is None and _is_starting(call):
        call.terminal.say("A daemon is starting, or its record cannot be read. Wait for it: wk daemon start")
        call.terminal.say(f"Its log: {call.reading.state.daemon_log}")
    elif info is None:
        call.terminal.say("No daemon runs. It is started when a task needs it, or by `wk daemon start`.")
    else:
        up = render.duration((call.reading.system_clock.now() - info.started_at).total_seconds())
        call.terminal.say(f"The daemon runs: pid {info.pid}, up {up}, version {info.version}, life {info.incarnation}.")
        if info.version != __version__:
            call.terminal.say(f"This program is version {__version__}: wk daemon restart. Agents continue meanwhile.")
        if info.frozen:
            call.terminal.say(f"{finding.describe_frozen(info)} resumes it.")
        if info.ending:
            waits = {"drain": "waits for its agents to end", "interrupt": "ends its agents"}.get(info.ending, "ends")
            call.terminal.say(f"It {waits} and starts nothing new.")
        if info.trouble:
            call.terminal.say(f"Its order cannot be carried out yet, and is tried again: {render.clean(info.trouble)}")
        call.terminal.say(f"Its log: {call.reading.state.daemon_log}")
    if not as_json and words is not None:
        ago = render.duration((call.reading.system_clock.now() - words.at).total_seconds())
        call.terminal.say(
            f"A daemon (pid {words.pid}) ended {ago} ago without being told to: {render.clean(words.detail)}"
        )
    if not as_json and (service := _service(call)):
        call.terminal.say(f"It is installed as the service {service}.")
    return Exit.OK if info is not None and not info.frozen else Exit.DAEMON


def _is_starting(call: Call) -> bool:
    """Whether a daemon holds the lock, where no living daemon is on record: it takes the lock first and writes its record next."""
    return call.has_state and finding.is_there(call)


@command.command(cls=WkCommand, short_help="End the daemon and start this version's.")
@click.option("-v", "--verbose", is_flag=True, help=_EACH)
@json_option
@debug_option
@click.pass_obj
def restart(call: Call, verbose: bool, as_json: bool) -> None:
    """End the daemon and start one of this program's version. Agents keep working, and the new daemon takes them over."""
    from watchkeeper.daemon import client

    try:
        ended = client.stop(call.writing, "leave", on_wait=partial(_say_waiting, call, "ending"))
    except KeyboardInterrupt:
        raise Detached("Detached; the daemon is still ending. Then: wk daemon start") from None
    call.terminal.clear_status()
    _ = client.start(call.writing)
    info = finding.running(call)
    if as_json:
        call.terminal.document({"ended": ended, **finding.plain(info), "found": finding.found_by_newest(call)})
        return
    word = "was restarted" if ended else "was started; none ran before"
    call.terminal.say(f"The daemon {word}{f' (pid {info.pid}, version {info.version})' if info else ''}.")
    _say_found(call, verbose=verbose)


@command.command(cls=WkCommand, short_help="Have systemd start the daemon at every login.")
@click.option("--now", is_flag=True, help="Also start it now, in place of a daemon that was started otherwise.")
@click.option("--force", is_flag=True, help="Replace a unit that was written or changed by hand.")
@click.option("--print", "only_print", is_flag=True, help="Only print the unit; write nothing.")
@json_option
@debug_option
@click.pass_obj
def install(call: Call, now: bool, force: bool, only_print: bool, as_json: bool) -> None:
    """Have your systemd start the daemon at every login, as a service of yours.

    Typed again after an upgrade it brings the unit up to date. A unit that you have changed is left alone. Settings of
    the service are those in your settings file; variables of this shell are not seen by it.
    """
    from watchkeeper.cli import service

    if only_print:
        call.terminal.say(call.writing.unit.text().rstrip("\n"))
    else:
        service.install(call, now=now, force=force, as_json=as_json)


@command.command(cls=WkCommand, short_help="Take the service away, and say what is left.")
@json_option
@debug_option
@click.pass_obj
def uninstall(call: Call, as_json: bool) -> None:
    """Take the service away, and list what is left and how to remove it. Agents and everything that is kept stay."""
    from watchkeeper.cli import service

    service.uninstall(call, as_json=as_json)


def _service(call: Call) -> str | None:
    """The name of its unit, if it is installed as a service."""
    try:
        unit = call.reading.unit
    except StateDirectoryUnusable:
        return None
    return unit.name if unit.path.exists() else None


def _say_found(call: Call, *, verbose: bool) -> None:
    """What became of the runs that the new daemon found: how many of each, or each by itself."""
    from watchkeeper.cli.daemon import describe_found, found_by_newest

    found = found_by_newest(call)
    if found:
        call.terminal.say(f"Runs that it found: {describe_found(found)}{'' if verbose else ' (-v lists them)'}.")
    for run_id, word in found.items() if verbose else ():
        call.terminal.say(f"  {run_id}  {word}")
