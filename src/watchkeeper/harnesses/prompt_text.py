"""What a prompt must be so that an agent program hands it to its model as it stands."""

from watchkeeper.errors import BadTask

_BYTE_ORDER_MARK = "\ufeff"


def check_prompt(prompt: str, program: str) -> None:
    """Refuse a prompt that the program would not take, or would change on the way to its model.

    Args:
        prompt: the task's text.
        program: what the program is called, for people.

    Raises:
        BadTask: it is empty, holds a NUL character, or is not UTF-8 text.
    """
    if not prompt.strip(f" \t\r\n{_BYTE_ORDER_MARK}"):
        msg = f"{program} needs a prompt."
        raise BadTask(msg, hint='Say what is to be done: `wk run "…"`.')
    if "\0" in prompt:
        line = prompt[: prompt.index("\0")].count("\n") + 1
        msg = f"The prompt holds a NUL character in line {line}, which {program} does not take."
        raise BadTask(msg, hint="Remove it, or name the file that it came from in the prompt.")
    try:
        _ = prompt.encode()
    except UnicodeEncodeError as problem:
        msg = f"The prompt is not UTF-8 text at character {problem.start + 1}, and {program} takes nothing else."
        raise BadTask(msg, hint="Convert the file that it came from, for example with iconv.") from problem
