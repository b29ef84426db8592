"""What the doors cost, in ns a call, and what the hook costs code that is not ours. Run by hand:

    python tests/hook/bench_core.py

Nothing but the core and a fake SCM that returns its first argument: no guards, no PyTorch. Figures are the best of
several repeats, less the cost of an empty loop; on a shared machine only their ratios mean something.
"""

import sys
import timeit

import build_core

core, fake = build_core.load_core(), build_core.load_fake()
CORE_COUNT, REPEATS = 200_000, 9


def best(statement, setup="pass", number=CORE_COUNT, **names):
    timer = timeit.Timer(statement, setup, globals=names)
    return min(timer.repeat(REPEATS, number)) / number * 1e9


def per_call(statement, **names):
    return best(statement, **names) - best("pass")


def serve(func, mode="arg0", value=None, doors=3, record=None):
    core.entry_create(func.__code__, record, doors)
    core.entry_scm_set(func.__code__, fake.scm(mode, value))
    return func


def make():
    def f(x, y=1, *, k=2):
        return x

    def g(x):
        return x

    return f, g


def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)


def main():
    x = object()
    print(f"CPython {sys.version.split()[0]}, ns a call")
    f, g = make()
    print(f"  plain function                    {per_call('g(x)', g=g, x=x):7.1f}")
    print(f"  builtin id                        {per_call('id(x)', x=x):7.1f}")

    f, g = make()
    serve(g, doors=1)
    core.hook_install()
    print(f"  frame door, hit                   {per_call('g(x)', g=g, x=x):7.1f}")
    print(f"  plain function, hook on           {per_call('h(x)', h=lambda x: x, x=x):7.1f}")
    core.hook_remove()

    f, g = make()
    serve(f), serve(g)
    if core.promote(f) and core.promote(g):
        print(f"  call door, hit                    {per_call('g(x)', g=g, x=x):7.1f}")
        print(f"  call door, hit, keyword, defaults {per_call('f(x, k=3)', f=f, x=x):7.1f}")
        core.entry_state_set(g.__code__, core.OFF)
        print(f"  call door, OFF                    {per_call('g(x)', g=g, x=x):7.1f}")
        core.entry_state_set(g.__code__, core.SERVE)
        core.demote_all()
    jg, jf = core.JitFunction(g), core.JitFunction(f)
    print(f"  JitFunction, hit                  {per_call('g(x)', g=jg, x=x):7.1f}")
    print(f"  JitFunction, hit, keyword         {per_call('f(x, k=3)', f=jf, x=x):7.1f}")
    serve(g, "miss")
    print(f"  JitFunction, miss without record  {per_call('g(x)', g=jg, x=x):7.1f}")

    def fib_time():
        return best("fib(24)", number=5, fib=fib) / 1e6

    off = fib_time()
    core.quiet_after_set(0)
    core.hook_install()
    on = fib_time()
    core.quiet_after_set(1000)
    fib(20)
    state = core.hook_state()
    aside = fib_time()
    core.hook_remove()
    print(f"fib(24): off {off:.2f} ms, on {on:.2f} ms ({on / off:.2f}x), {state} {aside:.2f} ms ({aside / off:.2f}x)")


if __name__ == "__main__":
    main()
