# Makes `.venv` from a lock file and keeps it so. Sourced by `wk` and `test`, with $root set.
#
#   environment run   what the program needs
#   environment dev   that, and what its gates and tests need
#
# When nothing has changed this costs one `cksum`. Otherwise one caller works while others wait, holding a lock that the
# kernel drops however its holder dies. An environment that was left half made is thrown away and made again: it carries
# the file `half-made` until its stamp is written, last of all.

environment() {
    kind=$1
    venv=$root/.venv
    environment_is_current || make_environment
}

environment_is_current() {
    stamp=$venv/stamp-$kind
    # shellcheck disable=SC2046 # split on purpose: one line out of several
    set -- $(cd "$root" && cksum "requirements/$kind.txt" pyproject.toml scripts/environment.sh $(test_tools pyproject.toml))
    wanted="$* $root"
    found=
    [ -r "$stamp" ] && IFS= read -r found <"$stamp"
    # A link to a Python that is gone is not executable either.
    [ "$wanted" = "$found" ] && [ -x "$venv/bin/python" ] && [ -x "$venv/bin/wk" ]
}

# The distribution of tools for tests, which only a `dev` environment has: a path in it.
test_tools() {
    [ "$kind" = run ] || echo "packages/watchkeeper-testing/$1"
}

make_environment() {
    # The user's settings for other environments must not reach this one.
    unset PYTHONHOME PYTHONPATH PIP_USER PIP_TARGET PIP_PREFIX PIP_ROOT PIP_REQUIRE_VIRTUALENV
    python=$(find_python) || exit $?
    { mkdir -p "$root/.cache" && : >>"$root/.cache/environment.lock"; } 2>/dev/null ||
        unavailable "$root cannot be written to, and the Python environment belongs there; make it writable once, or take a copy of your own."
    log=$root/.cache/environment.log
    exec 9>>"$root/.cache/environment.lock"
    if ! lock_environment; then
        say "waiting for another set-up of $venv ..."
        lock_environment wait
    fi
    if ! environment_is_current; then
        say "setting up the Python environment (takes a moment, only when something has changed) ..."
        : >"$log"
        fill_environment || exit $?
        say "ready."
    fi
    exec 9>&-
}

# The lock belongs to descriptor 9, which this shell keeps: it outlives the Python that took it.
lock_environment() {
    "$python" -I -c 'import fcntl, sys; fcntl.flock(9, fcntl.LOCK_EX | (0 if sys.argv[1:] else fcntl.LOCK_NB))' "$@" 2>/dev/null
}

fill_environment() {
    rm -f "$venv"/stamp-*
    if [ -e "$venv/half-made" ] || ! "$venv/bin/python" -I -c "$OLD_ENOUGH; import pip" 2>/dev/null || moved; then
        rm -rf "$venv" || unavailable "$venv is broken and cannot be removed; remove it by hand."
    fi
    mkdir -p "$venv" && : >"$venv/half-made"
    if ! [ -x "$venv/bin/python" ]; then
        logged "$python" -I -m venv "$venv" || unavailable "$python could not make $venv; $(last_words)"
    fi
    logged "$venv/bin/python" -I -m pip install --no-compile --require-hashes -r "$root/requirements/$kind.txt" ||
        installation_failed
    logged "$venv/bin/python" -I -m pip install --no-compile --no-deps --no-build-isolation --no-index --editable "$root" ||
        installation_failed
    if [ "$kind" = dev ]; then
        logged "$venv/bin/python" -I -m pip install --no-compile --no-deps --no-build-isolation --no-index --editable "$root/$(test_tools .)" ||
            installation_failed
    fi
    # What does not compile is for the import to complain about.
    logged "$venv/bin/python" -I -m compileall -q "$venv"/lib/python*/site-packages "$root/src" || :
    environment_is_current || :
    echo "$wanted" >"$stamp.new" && mv "$stamp.new" "$stamp" && rm -f "$venv/half-made"
    if [ "$kind" = dev ]; then # the larger holds the smaller, in the same versions
        kind=run
        environment_is_current || :
        echo "$wanted" >"$stamp.new" && mv "$stamp.new" "$stamp"
        kind=dev
    fi
}

# Programs in an environment know their interpreter by its whole path.
moved() {
    IFS= read -r first <"$venv/bin/pip" 2>/dev/null || return 1
    case $first in
        "#!$venv/"*) return 1 ;;
        "#!/bin/sh") ! grep -qF "$venv/bin/python" "$venv/bin/pip" ;; # a path with spaces, or a long one
        *) return 0 ;;
    esac
}

OLD_ENOUGH='import sys; sys.version_info >= (3, 11) or sys.exit(3)'

find_python() {
    older='' bare=''
    for name in python3 python3.14 python3.13 python3.12 python3.11; do
        command -v "$name" >/dev/null || continue
        "$name" -I -c "$OLD_ENOUGH" 2>/dev/null
        case $? in
            0) ;;
            3) older=$name && continue ;;
            *) continue ;;
        esac
        if "$name" -I -c 'import ensurepip, venv' 2>/dev/null; then
            echo "$name"
            return
        fi
        bare=$name
    done
    if [ -n "$bare" ]; then
        unavailable "$bare comes without its venv module; type \`sudo apt install python3-venv\` (or your system's like of it) and try again."
    elif [ -n "$older" ]; then
        unavailable "$("$older" -V 2>&1) is too old, 3.11 or newer is needed; install one and try again."
    fi
    unavailable "there is no Python here, 3.11 or newer is needed; type \`sudo apt install python3 python3-venv\` (or your system's like of it) and try again."
}

installation_failed() {
    if grep -qE 'NameResolution|NewConnection|ConnectTimeout|ReadTimeout|ProxyError|Network is unreachable|Failed to establish' "$log"; then
        unavailable "the package index cannot be reached, and packages are needed this once; see to the network or to pip's settings and try again (all that pip said is in $log)."
    fi
    unavailable "the packages could not be installed; $(last_words)"
}

last_words() {
    echo "the last word was \`$(grep -v '^[[:space:]]*$' "$log" | tail -n 1)\`, all of it is in $log."
}

logged() {
    PIP_DISABLE_PIP_VERSION_CHECK=1 "$@" >>"$log" 2>&1 9>&-
}

say() {
    echo "$program: $*" >&2
}

unavailable() {
    say "$*"
    exit 69
}
