"""What a call does besides returning: prints, warnings, logs, finalizers, order of events."""

from __future__ import annotations

from ..draft import Draft, feature


@feature()
def printed(p: Draft) -> None:
    p.line(f"print({p.one_of(repr('text'), 'x.shape', 'len(x), 3')})")
    p.keep("x * 2")


@feature(12)
def warned(p: Draft) -> None:
    p.line(p.one_of("warnings.warn('careful', stacklevel=1)", "warnings.warn('old', DeprecationWarning)"))
    p.keep("x * 2")


@feature(12)
def warned_by_an_operator(p: Draft) -> None:
    other = p.argument("ramp(3, 4)", "ramp(1, 4)", "ramp(3, 1)", sort="tensor")
    p.keep(
        p.one_of(
            "F.mse_loss({0}.float(), {1})", "F.l1_loss({0}.float(), {1})", "F.smooth_l1_loss({0}.float(), {1})"
        ).format("x.detach()", other)
    )


@feature(12)
def finalizer(p: Draft) -> None:
    c, log = p.name("Timer"), p.glob("[]", "LOG")
    p.define(f"class {c}:\n    k = 2\n    def __del__(self):\n        {log}.append('gone')")
    o = p.name("o")
    p.line(f"{o} = {c}()", f"{log}.append('made')")
    if p.rng.random() < 0.5:
        p.line(f"del {o}", f"{log}.append('dropped')")
        p.keep("x * 2")
    else:
        p.keep(f"x * {o}.k")


@feature(weight=1.5)
def log_of_events(p: Draft) -> None:
    log = p.glob("[]", "LOG")
    p.line(f"{log}.append({p.one_of('1', repr('here'), 'x.shape[0]')})")
    p.change(f"{log}.clear()", f"{log} = ['new']")
    p.keep("x * 2")


@feature(8)
def operator_that_writes(p: Draft) -> None:
    """An operator written in Python, which appends to a list that the function appends to as well."""
    if "EVENTS = []" not in p.definitions:
        p.define("EVENTS = []")
    ev = p.argument("EVENTS", sort="events") if p.rng.random() < 0.5 else "EVENTS"
    t = p.name("n")
    p.line(f"{ev}.append('before')", f"{t} = note({p.any()})", f"{ev}.append('after')")
    p.keep(t)
    if p.rng.random() < 0.5:
        p.keep(f"len({ev})")


@feature(8)
def operator_that_reads(p: Draft) -> None:
    if "SCALE = 1" not in p.definitions:
        p.define("SCALE = 1\ndef set_scale(k):\n    global SCALE\n    SCALE = k")
    p.line("set_scale(7)")
    p.keep("scaled(x)")
    p.line("set_scale(2)")
    p.keep("SCALE")


@feature(8)
def operator_that_sets(p: Draft) -> None:
    if "SCALE = 1" not in p.definitions:
        p.define("SCALE = 1")
    t = p.name("n")
    p.line(f"{t} = rescale(x)")
    p.keep(f"{t} * SCALE")
    p.change("SCALE = 1", "SCALE = 5")


@feature()
def counter_on_the_function(p: Draft) -> None:
    h = p.name("counted")
    p.define(f"def {h}(x):\n    {h}.calls += 1\n    return x * 2\n{h}.calls = 0")
    p.keep(f"{h}(x)")


@feature()
def nonlocal_counter(p: Draft) -> None:
    h = p.name("counter")
    p.define(f"""
        def make_{h}():
            n = 0
            def {h}():
                nonlocal n
                n += 1
                return n
            return {h}
        {h} = make_{h}()
    """)
    p.keep(f"x * {h}()")


@feature(12)
def own_hook_of_a_tensor(p: Draft) -> None:
    t = p.tensor(f"{p.any()} * 2")
    p.line(f"{t}.tag = {p.number()}")
    p.keep(t)
