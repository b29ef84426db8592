#!/usr/bin/env bash
# For a machine with a GPU: uses that machine's own python3, makes no virtual environment, asks no package index.
#   gpu.sh build [OUT]   build ext/ in place
#   gpu.sh test OUT      build, the tests marked gpu, then the whole suite      -> gpu_tests.log suite.log
#   gpu.sh launch OUT    build, the launch corpus and the random walk on it     -> launch_corpus.json walk.json *.log
#   gpu.sh bench OUT     build, benchmarks                                      -> *.json table.md
#   gpu.sh all OUT       everything, plus env_report.txt; every step runs, the exit status is the worst of them
# PYTEST_ARGS, BENCH_ARGS, JOBS (processes) and PYTHON3 may be set.
set -u
cd "$(dirname "$0")/.."
verb=${1:-}
out=${2:-}
python=${PYTHON3:-python3}
usage() { sed -n '2,8p' "$0" >&2; exit 2; }
case $verb in build) ;; test | launch | bench | all) [ -n "$out" ] || usage ;; *) usage ;; esac
[ -z "$out" ] || mkdir -p "$out" || exit 1
export PYTHONPATH=$PWD${PYTHONPATH:+:$PYTHONPATH} PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
status=0

step() { # step NAME COMMAND...: run it, remember the failure, say how long it took
    local name=$1 start=$SECONDS
    shift
    echo "=== $name"
    if "$@"; then echo "=== $name: ok, $((SECONDS - start)) s"; else
        echo "=== $name: FAILED, $((SECONDS - start)) s"
        status=1
    fi
}
build() {
    "$python" -c 'import torch, sys; print("torch", torch.__version__, "CUDA available:", torch.cuda.is_available())' || return 1
    "$python" setup.py --quiet build_ext --inplace
}
logged() { # logged FILE COMMAND...: to the terminal and to OUT/FILE
    local file=$1
    shift
    set -o pipefail
    "$@" 2>&1 | tee "$out/$file"
}
gpu_tests() {
    "$python" -c 'import torch, sys; sys.exit(0 if torch.cuda.is_available() else "no CUDA device: nothing to test here")' || return 1
    # shellcheck disable=SC2086
    logged gpu_tests.log "$python" -m pytest -p no:cacheprovider -m gpu ${PYTEST_ARGS:-}
}
suite() {
    # shellcheck disable=SC2086
    logged suite.log "$python" -m pytest -p no:cacheprovider -m "not gpu" ${PYTEST_ARGS:-}
}
corpus() { logged launch_corpus.log "$python" -m tests.launch.on_gpu --out "$out/launch_corpus.json" --jobs "${JOBS:-6}"; }
walk() {
    logged walk.log "$python" -m tests.launch.walk --device cuda --calls 2000 --jobs "${JOBS:-6}" --out "$out/walk.json"
}
bench() {
    # shellcheck disable=SC2086
    "$python" -m benchmarks.run_all --out "$out" ${BENCH_ARGS:-}
}
report() { logged env_report.txt "$python" -m trident_hook.env_report; }

step build build
[ $status -eq 0 ] || exit 1
case $verb in
test) step "GPU tests" gpu_tests; step "the rest of the suite" suite ;;
launch) step "launch corpus" corpus; step "random walk" walk ;;
bench) step benchmarks bench ;;
all)
    step "environment report" report
    step "GPU tests" gpu_tests
    step "launch corpus" corpus
    step "random walk" walk
    step benchmarks bench
    step "the rest of the suite" suite
    ;;
esac
exit $status
