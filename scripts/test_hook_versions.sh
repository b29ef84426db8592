#!/usr/bin/env bash
# Runs tests/hook, which build trident_hook._core for the interpreter that runs them, on the other supported CPythons.
# No PyTorch there: a throw-away environment with pytest and setuptools only. Says what was run and what is missing.
# Usage: test_hook_versions.sh [3.11 3.13 ...]
set -u
cd "$(dirname "$0")/.."
versions=("$@")
[ ${#versions[@]} -gt 0 ] || versions=(3.11 3.13)
if ! compgen -G 'tests/hook/test_*.py' >/dev/null || ! [ -f ext/modules/core.c ]; then
    echo "hook tests on other CPythons: nothing to run yet (ext/modules/core.c or tests/hook is missing)"
    exit 0
fi

ran=() missing=() failed=()
for version in "${versions[@]}"; do
    if ! python=$(PYTHON='' bash scripts/find_python.sh "$version" 2>/dev/null); then
        missing+=("$version")
        continue
    fi
    home=.venvs/hook-$version
    pins=$(grep -E '^(pytest|setuptools)==' requirements/reference.txt)
    if [ "$(cat "$home/.stamp" 2>/dev/null)" != "$pins" ]; then
        rm -rf "$home"
        # shellcheck disable=SC2086  # the pins are separate arguments
        if ! { "$python" -m venv "$home" && "$home/bin/python" -m pip install -q --disable-pip-version-check $pins; }; then
            echo "hook tests on CPython $version: the environment could not be made" >&2
            failed+=("$version")
            continue
        fi
        echo "$pins" >"$home/.stamp"
    fi
    echo "hook tests on $("$home/bin/python" --version):"
    printf '[pytest]\nmarkers =\n  gpu: needs a CUDA device\n  slow: takes long\n  timeout: per-test limit\n' >"$home/pytest.ini"
    # --confcutdir: tests/conftest.py belongs to the environment that has PyTorch.
    if "$home/bin/pytest" -q -c "$home/pytest.ini" --rootdir=. --confcutdir=tests/hook -p no:cacheprovider \
        tests/hook; then
        ran+=("$version")
    else
        failed+=("$version")
    fi
done
echo "hook tests on other CPythons: passed on [${ran[*]:-none}], not installed here [${missing[*]:-none}]," \
    "failed on [${failed[*]:-none}]"
[ ${#failed[@]} -eq 0 ]
