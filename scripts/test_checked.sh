#!/usr/bin/env bash
# Runs tests/hook with a core that is built for it: `debug` with our assertions, `sanitizers` under the address and
# undefined-behaviour sanitizers as well. The normal build is not touched.
# Usage: test_checked.sh debug|sanitizers [pytest options]
set -eu
cd "$(dirname "$0")/.."
mode=${1:?debug or sanitizers}
shift
export TDH_TEST_CFLAGS="-O1 -g -UNDEBUG -DTDH_DEBUG=1"
if [ "$mode" = sanitizers ]; then
    TDH_TEST_CFLAGS="$TDH_TEST_CFLAGS -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer"
    # CPython is not built with them, and keeps what it has allocated at its end.
    export ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=print_stacktrace=1 PYTHONMALLOC=malloc
    LD_PRELOAD="$(gcc -print-file-name=libasan.so) $(gcc -print-file-name=libubsan.so)"
    python -c "import sys; sys.path.insert(0, 'tests/hook'); import build_core; build_core.core_path(); build_core.fake_scm_path()"
    export LD_PRELOAD
    set -- --ignore=tests/hook/test_hook_leaks.py "$@" # freed memory is kept aside, to see whether it is used
fi
exec python -m pytest -q -p no:cacheprovider tests/hook "$@"
