"""An agent that gives away every secret it was given, in every way an agent does so by accident; then it crashes.

    leaking_agent.py GO

Its secrets are in its environment, all but one, which it makes up: `MADE_UP` backwards. It waits for the file GO before it ends.
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path


def say(text: str) -> None:
    """Print it at once."""
    print(text, flush=True)


def main() -> None:
    """Give them away."""
    secret = os.environ
    say(f"the environment: NPM_TOKEN={secret['NPM_TOKEN']}")
    header = f"Authorization: Bearer {secret['MADE_UP'][::-1]}"
    say(f"> {header}")
    print(f"curl: sent {header}", file=sys.stderr, flush=True)
    say(json.dumps({"type": "text", "text": json.dumps({"body": secret["AWKWARD_SECRET"]})}))
    half = len(secret["SPLIT_KEY"]) // 2
    _ = sys.stdout.write("it is " + secret["SPLIT_KEY"][:half])
    sys.stdout.flush()
    time.sleep(0.3)
    say(secret["SPLIT_KEY"][half:])
    Path(f"dump-{secret['FILE_TOKEN']}.txt").write_text("x\n", encoding="utf-8")
    git = ["git", "-c", "user.name=t", "-c", "user.email=t@example.org"]
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", f"Use {secret['FILE_TOKEN']}"], check=True)
    sleep = "import time; time.sleep(300)"
    child = subprocess.Popen([sys.executable, "-c", sleep, secret["CHILD_TOKEN"]], start_new_session=True)
    child.returncode = 0
    say("".join(f"    {line}\n" for line in secret["DEPLOY_KEY"].splitlines()))
    say(f"connecting to {secret['DATABASE_URL']}")
    say(f"asked for: {secret['PLAIN_NAME']}")
    say("waiting")
    go = Path(sys.argv[1])
    while not go.exists():
        time.sleep(0.005)
    say(f"In the end it was {secret['FINAL_PASSWORD']}.")
    print(f"RuntimeError: cannot sign in with {secret['CRASH_CREDENTIALS']}", file=sys.stderr)
    sys.exit(3)


if __name__ == "__main__":
    main()
