"""`wk report`, `wk cost`, `wk explain` and `wk bundle`, of real runs."""

import hashlib
import json
import zipfile
from pathlib import Path
from typing import Any

from support.rig import Rig
from support.waiting import wait_until


def _give(rig: Rig, script: str, *options: str) -> str:
    rig.keep_daemon()
    done = rig.wk("run", "--harness", "demo", "--json", "--wait", *options, "--", script, check=False)
    return str(json.loads(done.stdout.splitlines()[0])["id"])


def _json(rig: Rig, *command: str) -> Any:
    return json.loads(rig.wk(*command, "--json").stdout)


def test_a_report_has_every_task_in_one_list_with_its_next_command(rig: Rig) -> None:
    """Done, failed, needs you; and what it cost."""
    done = _give(rig, "write a.txt hello\nsay Wrote it.")
    asks = _give(rig, "run true\nsay Which of the two files do you mean?")
    failed = _give(rig, "run true\nexit 3")
    found = _json(rig, "report", "--since", "1h")
    assert {
        name: [each["id"] for each in found[name]] for name in ("done", "needs_you", "failed", "stopped", "active")
    } == {
        "done": [done],
        "needs_you": [asks],
        "failed": [failed],
        "stopped": [],
        "active": [],
    }
    assert found["cost"]["runs"] == sum(len(rig.runs(each)) for each in (done, asks, failed))
    text = rig.wk("report").stdout.decode()
    assert "1 needs you, 1 failed, 1 done" in text
    assert f"wk retry {failed}" in text
    assert "Wrote it." in text
    assert _json(rig, "report", "--since", "today")["done"][0]["text"] == "Wrote it."


def test_a_report_leaves_out_what_ended_before(rig: Rig) -> None:
    """But not what needs a person."""
    done = _give(rig, "write a.txt hello\nsay Wrote it.")
    asks = _give(rig, "run true\nsay Which of the two files do you mean?")
    after = rig.task(asks).updated_at.isoformat()
    found = _json(rig, "report", "--since", after)
    assert [each["id"] for each in found["needs_you"]] == [asks]
    assert found["done"] == []
    assert done not in rig.wk("report", "--since", after).stdout.decode()


def test_costs_are_grouped_and_classes_are_kept_apart(rig: Rig) -> None:
    """A program's total is known, a number of one that was ended is claimed, and a plain command reports no cost at all."""
    done = _give(rig, "write a.txt hello\nusage 100 10 0.50\nsay Wrote it.")
    ended = _give(rig, "write b.txt hello\nusage 100 10 0.25\nexit 3", "--retries", "0")
    command = json.loads(rig.wk("run", "--json", "--wait", "--", "true").stdout.splitlines()[0])["id"]
    found = _json(rig, "cost", "--by", "task")
    by_task = {each["name"]: each for each in found["groups"]}
    assert (by_task[done]["known_runs"], by_task[done]["unknown_runs"]) == (1, 0)
    assert by_task[done]["known_usd"] == 0.5
    assert found["groups"][0]["name"] == done
    assert by_task[ended]["known_usd"] == 0.25
    assert (by_task[command]["known_runs"], by_task[command]["unknown_runs"]) == (0, 1)
    assert (found["all"]["runs"], found["all"]["known_usd"], found["all"]["unknown_runs"]) == (3, 0.75, 1)
    assert "unknown for 1 run" in rig.wk("cost").stdout.decode()
    assert _json(rig, "cost", "--since", "2099-01-01")["all"]["runs"] == 0


def test_what_a_stopped_agent_had_reported_is_a_lower_bound(rig: Rig) -> None:
    """It is shown as claimed, and is in no sum of what is known."""
    rig.keep_daemon()
    script = "usage 100 10 0.25\nrun true\nhang"
    task_id = json.loads(rig.wk("run", "--harness", "demo", "--json", "--", script).stdout.splitlines()[0])["id"]
    wait_until(
        lambda: b"usage" in rig.wk("logs", "--raw", task_id).stdout, within_s=30, what="the agent reports its use"
    )
    _ = rig.wk("stop", task_id)
    found = _json(rig, "cost")["all"]
    assert (found["known_runs"], found["claimed_runs"], found["claimed_usd"]) == (0, 1, 0.25)
    assert "at least $0.25 claimed (1 run)" in rig.wk("cost").stdout.decode()


def test_an_explanation_tells_who_what_and_how_it_ended(rig: Rig) -> None:
    """By name only where values may be secret."""
    task_id = _give(rig, "write a.txt hello\nsay Wrote it.")
    found = _json(rig, "explain", f"{task_id}.1")
    assert found["authorisation"]["kind"] == "person"
    assert "PATH" in found["variables"]
    assert [each["kind"] for each in found["steps"]].count("tool") == 1
    assert found["history"][-1]["kind"] == "task.run_settled"
    assert (found["evidence"]["verdict"], found["evidence"]["gone"]) == ("ended", True)
    assert found["prompt_sha256"] == hashlib.sha256(rig.task(task_id).spec.prompt.encode()).hexdigest()
    text = rig.wk("explain", task_id).stdout.decode()
    for part in ("allowed by", "what it did", "write a.txt", "proven: nothing of it is alive", "ended: "):
        assert part in text
    none = rig.wk("explain", f"{task_id}.2", check=False)
    assert none.returncode == 3
    assert "it has had 1" in none.stderr.decode()
    assert rig.wk("explain", f"{task_id}.x", check=False).returncode == 2


def test_each_try_is_explained_by_itself(rig: Rig) -> None:
    """The history of one does not hold that of the other."""
    task_id = _give(rig, "run true\nexit 3")
    _ = rig.wk("retry", task_id)
    _ = rig.wk("wait", task_id, check=False)
    first, second = (_json(rig, "explain", f"{task_id}.{number}") for number in (1, 2))
    assert {each["run"] for each in first["history"]} == {None, f"{task_id}.1"}
    assert {each["run"] for each in second["history"]} == {None, f"{task_id}.2"}


def test_a_bundle_holds_no_secret_and_checks_out(rig: Rig, tmp_path: Path) -> None:
    """A variable that was asked for is hidden in everything that the agent printed."""
    rig.settings = {"DEPLOY_TOKEN": "s3cr3t-Xy81-kQ02-value"}
    rig.keep_daemon()
    script = ("sh", "-c", 'echo "token $DEPLOY_TOKEN"; echo "$DEPLOY_TOKEN" >&2')
    done = rig.wk("run", "--json", "--wait", "--env", "DEPLOY_TOKEN", "--", *script)
    task_id = json.loads(done.stdout.splitlines()[0])["id"]
    file = tmp_path / "run.zip"
    made = _json(rig, "bundle", task_id, "-o", str(file))
    assert made["unchanged"]
    assert made["about"]["no_patch"]
    with zipfile.ZipFile(file) as archive:
        contents = {name: archive.read(name) for name in archive.namelist()}
    assert set(contents) == {
        "explanation.json", "history.jsonl", "manifest.json", "prompt.txt", "stderr.log", "stdout.log", "steps.jsonl",
    }  # fmt: skip
    assert all(b"s3cr3t" not in data for data in contents.values())
    assert b"[redacted DEPLOY_TOKEN]" in contents["stdout.log"]
    assert b"[redacted DEPLOY_TOKEN]" in contents["stderr.log"]
    assert "DEPLOY_TOKEN" in json.loads(contents["explanation.json"])["variables"]
    checked = rig.wk("bundle", "verify", str(file))
    assert made["manifest_sha256"] in checked.stdout.decode()
    with zipfile.ZipFile(file, "a") as archive:
        archive.writestr("more", "x")
    broken = rig.wk("bundle", "verify", str(file), check=False)
    assert broken.returncode == 1
    assert "more is not in the manifest." in broken.stdout.decode()


def test_a_bundle_holds_what_the_run_changed(rig: Rig, tmp_path: Path) -> None:
    """As a patch; and the report names the command that shows it."""
    task_id = _give(rig, "write a.txt hello\nsay Wrote it.")
    file = tmp_path / "run.zip"
    assert _json(rig, "bundle", task_id, "-o", str(file))["about"]["no_patch"] is None
    with zipfile.ZipFile(file) as archive:
        assert b"+hello" in archive.read("diff.patch")
    assert f"wk diff {task_id}" in rig.wk("report").stdout.decode()


def test_a_timeline_shows_who_worked_and_who_waited(rig: Rig) -> None:
    """Two agents one after another in one checkout, and a question that waits for a person."""
    first = _give(rig, "write a.txt hello\nsay Wrote it.")
    asks = _give(rig, "run true\nsay Which of the two files do you mean?")
    found = _json(rig, "timeline")
    doings = {each["id"]: [span["on_step"] for span in each["spans"]] for each in found["tasks"]}
    assert list(doings) == [first, asks]
    assert "working" in doings[first]
    assert doings[asks][-1] == "needs you"
    assert found["at_once"] == 1
    text = rig.wk("timeline").stdout.decode()
    assert first in text
    assert "At most 1 agent at once." in text
    assert _json(rig, "timeline", "--limit", "1")["left_out"] == 1
