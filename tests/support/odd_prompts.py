"""Tasks with a beginning that a program could take for something of its own: a command, an option, a file, a note."""

ODD_PROMPTS: dict[str, str] = {
    "login": "/login returns 500 when I click the button",
    "status": "/status page is slow",
    "config": "/config is not read",
    "memory": "/memory leak in the worker",
    "help": "/help me",
    "cost": "/cost",
    "model": "/model layer needs tests",
    "clear": "/clear the cache",
    "compact": "/compact",
    "review": "/review",
    "path": "/home/ada/project/x.py is broken",
    "slash": "/",
    "option": "-x is ignored",
    "long option": "--help",
    "dashes": "--",
    "dash": "-",
    "file": "@README says something else",
    "shell": "!ls now",
    "note": "#note: remember this",
    "blank": "  the text is indented",
    "blank and slash": " /login",
    "tab and slash": "\t/login",
    "line end": "\nthe first line is empty",
    "carriage return": "\r\nthe first line is empty",
    "substitution": "$(touch pwned) `touch pwned`",
    "front matter": "---\ntitle: x\n---\nDo it",
    "byte order mark": "\ufeffBegin",
    "byte order mark and slash": "\ufeff/login",
    "trailing": "Do it  \n\n",
    "object": '{"type": "user"}',
    "control": "\x1b[31mred\x01",
}
"""By name."""

REFUSED_PROMPTS: dict[str, tuple[str, str]] = {
    "nul": ("a\0b", "NUL character in line 1"),
    "nul later": ("a\nb\0", "NUL character in line 2"),
    "bytes": ("a \udcff", "not UTF-8 text at character 3"),
    "empty": (" \n", "needs a prompt"),
    "mark alone": ("\ufeff", "needs a prompt"),
}
"""What no program would pass on as it is, and how the refusal names it."""
