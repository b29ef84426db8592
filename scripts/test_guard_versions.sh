#!/usr/bin/env bash
# Runs the hook, guard and slice tests with PyTorch on the other supported CPythons. Each gets an environment of its own,
# .venvs/torch-VERSION, with the pins of the reference environment (several gigabytes the first time); ext/ is built in
# place, beside the modules of the reference CPython: the file names tell them apart.
# Usage: test_guard_versions.sh [3.11 3.13 ...]    MAX_JOBS, PYTEST_ARGS as in the Makefile
set -u
cd "$(dirname "$0")/.."
versions=("$@")
[ ${#versions[@]} -gt 0 ] || versions=(3.11 3.13)
pins=$(cksum <requirements/reference.txt)
export PYTHONPATH=$PWD${PYTHONPATH:+:$PYTHONPATH}

environment() { # environment VERSION: makes .venvs/torch-VERSION what the pins say
    local home=.venvs/torch-$1 python
    [ "$(cat "$home/.stamp" 2>/dev/null)" != "$pins" ] || return 0
    if ! [ -x "$home/bin/python" ]; then
        python=$(PYTHON='' bash scripts/find_python.sh "$1") && "$python" -m venv "$home" || return 1
    fi
    "$home/bin/python" -m pip install -q --disable-pip-version-check -r requirements/reference.txt || return 1
    echo "$pins" >"$home/.stamp"
}
tests() { # tests VERSION: tests/hook has a process of its own: it takes the core apart that the others use
    local python=.venvs/torch-$1/bin/python
    "$python" setup.py --quiet build_ext --inplace || return 1
    # shellcheck disable=SC2086
    "$python" -m pytest -q -p no:cacheprovider tests/hook ${PYTEST_ARGS:-} &&
        "$python" -m pytest -q -p no:cacheprovider tests/guards tests/slice ${PYTEST_ARGS:-}
}

ran=() missing=() failed=()
for version in "${versions[@]}"; do
    if ! PYTHON='' bash scripts/find_python.sh "$version" >/dev/null 2>&1; then
        missing+=("$version")
    elif environment "$version" && tests "$version"; then
        ran+=("$version")
    else
        failed+=("$version")
    fi
done
echo "guard tests on other CPythons: passed on [${ran[*]:-none}], not installed here [${missing[*]:-none}]," \
    "failed on [${failed[*]:-none}]"
[ ${#failed[@]} -eq 0 ]
