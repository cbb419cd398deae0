"""Bundles of runs, joined from the parts."""

from watchkeeper import __version__
from watchkeeper.app.bundle import Bundler
from watchkeeper.compose.parts import Watchkeeper
from watchkeeper.ports.bundles import Bundles
from watchkeeper.runtimes.bundle_file import ZipBundles


def bundles() -> Bundles:
    """Writes and checks bundles; needs no database."""
    return ZipBundles()


def bundler_of(parts: Watchkeeper) -> Bundler:
    """Bundles runs."""
    return Bundler(
        store=parts.store,
        clock=parts.clock,
        runtime=lambda: parts.runtime,
        harness=parts.harness,
        bundles=bundles(),
        diffs=parts.diffs,
        version=__version__,
    )
