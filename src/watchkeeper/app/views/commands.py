"""The command lines around runs as JSON values."""

from watchkeeper.domain.side_command import SideCommand


def plain(command: SideCommand) -> dict[str, object]:
    """One command, what it came to, and which execution it was."""
    fact = command.exit
    return {
        "kind": command.kind.value,
        "number": command.number,
        "line": command.line,
        "state": command.state.value,
        "result": None if command.result is None else command.result.value,
        "reason": command.reason or None,
        "exit_code": None if fact is None else fact.exit_code,
        "signal": None if fact is None else fact.signal,
        "elapsed_s": None if fact is None else fact.elapsed_s,
        "execution": command.execution_id,
    }
