#!/usr/bin/env bash
# Prints the interpreter to build the project with: $PYTHON if given, else 3.12, 3.13, 3.11 in that order.
# A candidate must really run (version managers leave shims that do not), bring venv, and bring its C headers.
# Usage: find_python.sh [3.12 [3.13 ...]]   the minor versions to accept, best first
set -u
wanted=("$@")
[ ${#wanted[@]} -gt 0 ] || wanted=(3.12 3.13 3.11)

usable() { # usable COMMAND MINOR: is it that CPython, with venv and headers?
    "$1" - "$2" >/dev/null 2>&1 <<'PY'
import os, platform, sys, sysconfig
import ensurepip, venv
ok = platform.python_implementation() == "CPython" and "%d.%d" % sys.version_info[:2] == sys.argv[1]
ok = ok and os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h"))
sys.exit(0 if ok else 1)
PY
}

candidates() { # candidates MINOR: every place where that version may be, one a line
    type -ap "python$1" 2>/dev/null
    if command -v pyenv >/dev/null 2>&1; then
        ls -d "$(pyenv root)"/versions/"$1"*/bin/python 2>/dev/null | sort -rV
    fi
    type -ap python3 2>/dev/null
}

if [ -n "${PYTHON:-}" ]; then
    for minor in "${wanted[@]}"; do
        if usable "$PYTHON" "$minor"; then echo "$PYTHON"; exit 0; fi
    done
    echo "PYTHON=$PYTHON does not run, lacks venv or Python.h, or is not CPython ${wanted[*]}" >&2
    exit 1
fi
for minor in "${wanted[@]}"; do
    while IFS= read -r candidate; do
        if usable "$candidate" "$minor"; then echo "$candidate"; exit 0; fi
    done < <(candidates "$minor")
done
echo "no usable CPython ${wanted[*]} found (needs the venv module and Python.h: python3-venv and python3-dev on Debian);" \
    "name one with PYTHON=/path/to/python" >&2
exit 1
