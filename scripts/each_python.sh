#!/bin/sh
# The quick tests on every Python that we support and that is here, but the one that `./test` uses: those that need no daemon and no agent program.
#
#   scripts/each_python.sh          all of them
#   scripts/each_python.sh 3.13     one
#
# Each has an environment of its own in `.cache/python-VERSION`, made from the same lock file. A version for which a package has no wheel is named and left out.
set -u
root=$(cd "$(dirname "$0")/.." && pwd -P) || exit 69
cd "$root" || exit 69
log=$root/.cache/each-python.log
mkdir -p .cache && : >"$log" || exit 69
WHERE="tests/domain tests/redaction tests/safe_json tests/settings tests/app tests/cli/test_render.py tests/cli/test_output.py tests/cli/test_errors.py tests/cli/test_history.py"

say() {
    echo "each python: $*" >&2
}

# A Python's version, if it is one that we support and can make an environment.
version_of() {
    "$1" -I -c 'import ensurepip, sys, venv; sys.version_info >= (3, 11) or sys.exit(1); print("%d.%d" % sys.version_info[:2])' 2>/dev/null
}

pythons() {
    for minor in 11 12 13 14 15; do
        for python in "python3.$minor" "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3."$minor".*/bin/python; do
            [ "$(version_of "$python")" = "3.$minor" ] && echo "3.$minor $python" && break
        done
    done
}

make() { # version, python
    venv=.cache/python-$1
    wanted="$(cksum requirements/dev.txt pyproject.toml packages/watchkeeper-testing/pyproject.toml) $root"
    [ "$(cat "$venv/stamp" 2>/dev/null)" = "$wanted" ] && return
    say "setting up an environment for Python $1 ..."
    rm -rf "$venv"
    "$2" -I -m venv "$venv" >>"$log" 2>&1 || return
    PIP_DISABLE_PIP_VERSION_CHECK=1 "$venv/bin/python" -I -m pip install -q --only-binary :all: --require-hashes -r requirements/dev.txt >>"$log" 2>&1 || return
    PIP_DISABLE_PIP_VERSION_CHECK=1 "$venv/bin/python" -I -m pip install -q --no-deps --no-build-isolation --no-index --editable . --editable packages/watchkeeper-testing >>"$log" 2>&1 || return
    printf '%s' "$wanted" >"$venv/stamp"
}

usual=$(version_of .venv/bin/python) || usual=
failed=
found=$(pythons)
while read -r version python; do
    [ -n "$version" ] || continue
    [ $# -eq 0 ] || [ "$1" = "$version" ] || continue
    if [ $# -eq 0 ] && [ "$version" = "$usual" ]; then
        continue # `./test` runs all of them on it
    fi
    if ! make "$version" "$python" </dev/null; then
        say "Python $version is left out: $(grep -E 'ERROR|error' "$log" | tail -n 1 | cut -c1-200) (all of it is in $log)"
        continue
    fi
    say "Python $version"
    # shellcheck disable=SC2086 # a list of paths
    ".cache/python-$version/bin/python" -m pytest -q -n 2 -p no:cacheprovider --hypothesis-profile=quick $WHERE </dev/null || failed="$failed $version"
done <<END
$found
END
[ -z "$failed" ] || { say "failed on:$failed" && exit 1; }
