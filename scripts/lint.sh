#!/usr/bin/env bash
# The whole style interface: `lint.sh check` reports, `lint.sh fix` repairs what can be repaired.
# Tools come from the environment that `make lint` puts first on PATH; versions are pinned in pyproject.toml.
set -u
cd "$(dirname "$0")/.."
mode=${1:-check}
status=0

step() { # step NAME COMMAND...: run it, remember a failure, go on
    local name=$1
    shift
    if "$@"; then echo "lint: $name ok"; else echo "lint: $name FAILED" >&2; status=1; fi
}
list() { # list PATTERN...: files that git knows or would know, existing ones only
    git ls-files --cached --others --exclude-standard -- "$@" | while IFS= read -r f; do [ -e "$f" ] && printf '%s\n' "$f"; done
}
for tool in ruff clang-format cython-lint; do
    command -v "$tool" >/dev/null || { echo "lint: $tool is not installed; run this through make lint" >&2; exit 1; }
done

mapfile -t c_files < <(list 'ext/*.c' 'ext/*.h' 'ext/*.cpp' 'ext/*.hpp' 'benchmarks/*.cpp' 'tests/*.c' 'tests/*.cpp')
mapfile -t cython_files < <(list '*.pyx' '*.pxd' '*.pyx.expected' | grep -v codegen/golden)
mapfile -t shell_files < <(list 'scripts/*.sh' '.ci/run')

case $mode in
fix)
    step "ruff (repair)" ruff check --quiet --fix .
    step "ruff format" ruff format --quiet .
    [ ${#c_files[@]} -eq 0 ] || step "clang-format" clang-format -i "${c_files[@]}"
    ;;
check)
    step "ruff" ruff check --quiet .
    step "ruff format" ruff format --quiet --check .
    [ ${#c_files[@]} -eq 0 ] || step "clang-format" clang-format --dry-run --Werror "${c_files[@]}"
    ;;
*)
    echo "usage: lint.sh check|fix" >&2
    exit 2
    ;;
esac
[ ${#cython_files[@]} -eq 0 ] || step "cython-lint" cython-lint "${cython_files[@]}"
for script in "${shell_files[@]}"; do
    step "bash -n $script" bash -n "$script"
done
if command -v shellcheck >/dev/null; then step "shellcheck" shellcheck "${shell_files[@]}"; fi
exit $status
