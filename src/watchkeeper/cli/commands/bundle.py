"""`wk bundle`: everything about a run in one archive, and the check of one."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from watchkeeper.cli import render
from watchkeeper.cli.call import Call
from watchkeeper.cli.command import SETTINGS, WkCommand, debug_option, json_option
from watchkeeper.cli.types import RUN, split_run
from watchkeeper.errors import Exit

if TYPE_CHECKING:
    from watchkeeper.ports.bundles import BundleFacts

_VERIFY = "verify"
_WRITE = "write"


class _Bundle(click.Group):
    """`wk bundle ID` writes one; only `verify` has to be named."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Everything but `verify` belongs to the command that writes."""
        first = next((each for each in args if not each.startswith("-")), "")
        if first not in {_VERIFY, _WRITE}:
            args = [_WRITE, *args]
        return super().resolve_command(ctx, args)


@click.group(
    cls=_Bundle,
    name="bundle",
    context_settings={**SETTINGS, "ignore_unknown_options": True},
    short_help="Everything about a run in one archive.",
    options_metavar="",
    subcommand_metavar="ID[.N] [-o FILE] [--force] | verify FILE",
)
def command() -> None:
    """Write everything that is known of a run into one archive, or check one.

    `wk bundle ID[.N]` writes a ZIP file: the explanation of the run, its prompt, its history, its steps and its output, with
    secrets hidden as in `wk logs`, and a manifest of their SHA-256 hashes. `wk bundle verify FILE` checks one without
    the database.
    """


@command.command(cls=WkCommand, name=_WRITE, short_help="Write the bundle of a run.")
@click.argument("run", metavar="ID[.N]", type=RUN)
@click.option(
    "-o", "--output", metavar="FILE", type=click.Path(path_type=Path), help="The file. [default: wk-ID.N.zip here]"
)
@click.option("--force", is_flag=True, help="Replace a file of that name.")
@json_option
@debug_option
@click.pass_obj
def write(call: Call, run: str, output: Path | None, force: bool, as_json: bool) -> None:
    """Write the bundle of run N of a task, the newest by default. `wk bundle ID` is short for it."""
    from watchkeeper.app.bundle import BundleRequest
    from watchkeeper.compose.bundling import bundler_of

    typed, number = split_run(run)
    _, task_id = call.find(typed)
    request = BundleRequest(
        task_id=task_id,
        number=number,
        directory=call.cwd,
        file=None if output is None else call.named(output),
        replace=force,
    )
    facts = bundler_of(call.reading).bundle(request)
    if as_json:
        call.terminal.document(_plain(facts))
        return
    files = render.counted(facts.files, "file")
    call.terminal.prose(f"Wrote {render.clean(str(facts.path))}: {files}, {render.size(facts.size)}.")
    call.terminal.prose(f"SHA-256 of its manifest: {facts.sha256}", render.DIM)


@command.command(cls=WkCommand, name=_VERIFY, short_help="Check a bundle.")
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path))
@json_option
@debug_option
@click.pass_obj
def verify(call: Call, file: Path, as_json: bool) -> int:
    """Check every file of a bundle against its manifest. Needs no database and no daemon.

    Exits with 0 if nothing was changed, and with 1 if something was. Compare the printed SHA-256 with the one that `wk bundle`
    printed, to know that it is the same bundle.
    """
    from watchkeeper.compose.bundling import bundles

    facts = bundles().check(call.named(file))
    if as_json:
        call.terminal.document(_plain(facts))
    elif facts.faults:
        call.terminal.prose(f"{render.clean(str(facts.path))} is not what its manifest says:")
        for each in facts.faults:
            call.terminal.prose(f"  {render.clean(each)}")
    else:
        about = render.clean(f"{facts.about.get('run', '')} {facts.about.get('title', '')}".strip())
        call.terminal.prose(f"Unchanged: {render.counted(facts.files, 'file')} about run {about}.")
        call.terminal.prose(f"SHA-256 of its manifest: {facts.sha256}", render.DIM)
    return Exit.TASK_FAILED if facts.faults else Exit.OK


def _plain(facts: "BundleFacts") -> dict[str, object]:
    return {
        "file": str(facts.path),
        "size": facts.size,
        "files": facts.files,
        "manifest_sha256": facts.sha256,
        "about": dict(facts.about),
        "unchanged": not facts.faults,
        "faults": list(facts.faults),
    }
