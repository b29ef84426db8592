"""Modes, switches and contexts that a function enters, sets or asks about."""

from __future__ import annotations

from ..draft import Draft, feature

_CONTEXTS = (
    "torch.no_grad()",
    "torch.enable_grad()",
    "torch.autocast('cpu', dtype=torch.bfloat16)",
    "torch.set_grad_enabled(False)",
)


@feature(weight=1.5)
def grad_contexts(p: Draft) -> None:
    t = p.name("m")
    with p.block(f"with {p.one_of(*_CONTEXTS)}:"):
        p.line(f"{t} = {p.any()} * 2")
        if p.rng.random() < 0.5:
            p.line(f"{t} = {t}.float() @ {t}.float().t()")
    p.keep(t)
    p.keep(f"{t} * 2")


@feature(3)
def inference_mode(p: Draft) -> None:
    t = p.name("m")
    with p.block("with torch.inference_mode():"):
        p.line(f"{t} = {p.any()} * 2")
    p.keep(t)
    p.keep("torch.is_inference_mode_enabled()" if p.rng.random() < 0.3 else "x * 2")


@feature(3, weight=1.5)
def setters(p: Draft) -> None:
    p.line(p.one_of(
        "torch.set_default_dtype(torch.float64)", "torch.use_deterministic_algorithms(True)", "torch.set_grad_enabled(False)",
        "torch.set_float32_matmul_precision('high')", "torch.backends.cuda.enable_flash_sdp(False)", "torch.set_warn_always(False)",
        "torch.backends.cuda.enable_math_sdp(False)", "torch.set_autocast_enabled('cpu', True)", "torch.set_num_threads(1)",
        "torch.backends.cudnn.benchmark = True",
    ))  # fmt: skip
    p.keep(p.one_of("torch.zeros(2)", "x * 2"))


@feature(3)
def default_dtype_for_a_while(p: Draft) -> None:
    t = p.name("m")
    p.line("torch.set_default_dtype(torch.float64)", f"{t} = torch.zeros(4)", "torch.set_default_dtype(torch.float32)")
    p.keep(f"{t} + x")


@feature(3)
def switch_contexts(p: Draft) -> None:
    t = p.name("m")
    with p.block("with " + p.one_of(
        "torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH)", "torch.backends.mkldnn.flags(enabled=False)",
        "torch.autograd.set_detect_anomaly(True)", "torch.random.fork_rng()", "torch.backends.cudnn.flags(enabled=False)",
        "torch.autograd.graph.save_on_cpu()", "torch.device('cpu')", "torch.autograd.set_multithreading_enabled(False)",
    ) + ":"):  # fmt: skip
        p.line(f"{t} = x * 2")
        if p.rng.random() < 0.5:
            p.line(f"{t} = {t} + torch.rand(4)")
    p.keep(t)


@feature()
def modes_asked(p: Draft) -> None:
    p.keep(p.one_of("torch.is_grad_enabled()", "torch.get_default_dtype()", "torch.is_autocast_enabled('cpu')",
                    "torch.are_deterministic_algorithms_enabled()", "torch.zeros(2).dtype", "torch.is_inference_mode_enabled()"))  # fmt: skip


@feature(6)
def distributed_asked(p: Draft) -> None:
    p.process("start_group()", "end_group()")
    p.keep("x * (2 if torch.distributed.is_initialized() else 3)")


@feature()
def decorated(p: Draft) -> None:
    h = p.name("helper")
    p.define(f"@torch.no_grad()\ndef {h}(x):\n    return x * 2")
    p.keep(f"{h}(x)")
