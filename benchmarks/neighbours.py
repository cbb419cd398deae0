"""Ten bad neighbours at full size beside a stream of `true`: `python benchmarks/neighbours.py [HOW_MANY [MIB [FORKS]]]`.

Prints the p50 and p99 of hand-over to outcome, undisturbed and beside them, and how long `wk daemon stop` takes. Where root runs it on a system with FUSE, it
starts again in a mount namespace of its own: there the dead mount and the full disk are real.
"""

import shutil
import statistics
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from support.mounts import in_own_namespace
from support.neighbours import Neighbourhood, p99


def main() -> None:
    """Measure once."""
    many, mib, forks = (*map(int, sys.argv[1:]), *(100, 5120, 20_000)[len(sys.argv) - 1 :])
    with_mounts = in_own_namespace()
    print(f"dead mount and full disk: {'real' if with_mounts else 'stood in for'}", flush=True)
    root = Path(tempfile.mkdtemp(prefix="wk-neighbours-"))
    there = Neighbourhood.at(root, mib, forks, with_mounts=with_mounts)
    try:
        there.rig.start_daemon()
        _ = there.stream(2)
        alone = there.stream(many)
        there.begin()
        beside = there.stream(many)
        for name, took in (("undisturbed", alone), ("beside ten bad ones", beside)):
            print(f"{name}: p50 {statistics.median(took):.2f} s, p99 {p99(took):.2f} s")
        print(f"ratio of the p99: {p99(beside) / p99(alone):.2f}")
        for kind in there.bad:
            print(f"{kind}: {there.state(kind)}")
        print(f"daemon stop: {there.stop_daemon():.2f} s")
    finally:
        there.close()
        shutil.rmtree(root, ignore_errors=True)


if __name__ == "__main__":
    main()
