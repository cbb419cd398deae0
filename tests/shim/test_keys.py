"""The records of an execution have exactly the keys that `docs/execution-directory.md` names: readers of other versions look for them."""

from shim.stage import Bench, sh

from watchkeeper.runtimes import proc
from watchkeeper.runtimes.boot import boot_id


def test_each_record_has_its_keys_and_true_values(bench: Bench) -> None:
    execution = bench.started(sh("echo up; exec sleep 300"))
    shim = execution.shims[0].pid
    execution.wait_for_output("up\n")
    agent = execution.record("proc.json")
    who, own = proc.identity(agent["pid"]), proc.identity(shim)
    assert who is not None and own is not None
    assert set(agent) == {
        "pid", "start_ticks", "boot_id", "pid_namespace", "shim_pid", "shim_start_ticks", "hears_requests", "started_at", "crc32",
    }  # fmt: skip
    assert (agent["pid"], agent["start_ticks"]) == who
    assert (agent["shim_pid"], agent["shim_start_ticks"]) == own
    assert agent["boot_id"] == boot_id() and agent["hears_requests"] is True
    assert execution.ask("stop", grace_s=0.2)["ok"] is True
    assert execution.shims[0].wait(timeout=30) == 0
    asked, ended, gone = (execution.record(name) for name in ("stop.json", "exit.json", "gone.json"))
    assert set(asked) == {"how", "at", "crc32"} and asked["how"] == "stop"
    assert set(ended) == {
        "status", "reason", "errno", "step", "path", "at", "elapsed_s", "max_rss_kib", "user_s", "system_s", "crc32",
    }  # fmt: skip
    assert (ended["reason"], ended["errno"], ended["step"], ended["path"]) == ("stop", None, None, None)
    assert ended["max_rss_kib"] > 0 and ended["elapsed_s"] > 0 and ended["user_s"] >= 0 and ended["system_s"] >= 0
    assert set(gone) == {"proof", "how", "at", "leftovers", "killed", "crc32"}
    assert (gone["proof"], gone["how"]) == ("proven", "echild")
    assert gone["leftovers"] == []


def test_what_an_agent_leaves_is_named_with_its_identity(bench: Bench) -> None:
    execution = bench.execution(sh("sleep 300 & exit 3"))
    assert execution.run() == 0
    agent, gone = execution.record("proc.json"), execution.record("gone.json")
    (left,) = gone["leftovers"]
    assert set(left) == {"pid", "start_ticks", "command"}
    assert (
        left["command"] == "sleep 300" and left["pid"] != agent["pid"] and left["start_ticks"] >= agent["start_ticks"]
    )
    assert gone["killed"] == 1
