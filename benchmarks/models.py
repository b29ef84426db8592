"""Two language models, decoding greedily, with matrix products and embeddings replaced by FlagGems, in five modes.

python -m benchmarks.models --model qwen3-8b --configs 2 --resume        (flag-gems==5.0.2, transformers)

Full-size models are built from their published configurations with random weights: nothing is downloaded, and the tokens
mean nothing. Prompts are random tokens; their lengths follow the three benchmarks that they are named after (see
LENGTHS). Batch 1, at most `--new-tokens` tokens. `mm`, `addmm` (so `linear`), `bmm` and `embedding` are FlagGems'.

  native        PyTorch's own operators
  gems          FlagGems, eager
  compile       FlagGems' functions under torch.compile, registered in the place of the plain ones
  compile-cpp   the same with Inductor's C++ wrapper
  ours          FlagGems under trident_hook.enable()

Modes take turns request by request, all with the same prompts; a row is written after each request, and `--resume` goes on
with what is missing, so a command that is cut off loses nothing: a GPU's ten minutes are one model with a few requests.
FlagGems' tuning happens before (`tuning_s`), with every prompt that will be used. `--tiny` runs two layers of tiny size
on whatever is there, the simulated driver included: to see that all of this works, not to measure."""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import logging
import random
import statistics
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import torch

import trident_hook
from benchmarks import flag_gems_sim
from benchmarks.device import conditions, simulated, synchronize
from benchmarks.flag_gems_ops import load
from benchmarks.rivals import copy_of

MODES = ("native", "gems", "compile", "compile-cpp", "ours")
WHITELIST = ("mm", "addmm", "bmm", "embedding")
METRICS = ("e2e", "ttft", "tpot", "itl")

#: Tokens of a zero-shot prompt: (median, spread of its logarithm, least, most). Approximations of what the questions of
#: MMLU with their four choices, of GSM8K, and the signatures with docstrings of HumanEval are long.
LENGTHS = {"mmlu": (85, 0.60, 30, 600), "gsm8k": (58, 0.40, 20, 220), "humaneval": (120, 0.50, 45, 420)}

_QWEN3_8B = {
    "hidden_size": 4096, "intermediate_size": 12288, "num_hidden_layers": 36, "num_attention_heads": 32,
    "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 151936, "max_position_embeddings": 40960,
    "rope_theta": 1_000_000.0, "rms_norm_eps": 1e-6, "tie_word_embeddings": False,
}  # fmt: skip
_DEEPSEEK_V2_LITE = {
    "hidden_size": 2048, "intermediate_size": 10944, "moe_intermediate_size": 1408, "num_hidden_layers": 27,
    "num_attention_heads": 16, "num_key_value_heads": 16, "n_routed_experts": 64, "n_shared_experts": 2,
    "num_experts_per_tok": 6, "first_k_dense_replace": 1, "kv_lora_rank": 512, "q_lora_rank": None,
    "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128, "head_dim": 64, "vocab_size": 102400,
    "max_position_embeddings": 4096, "rope_theta": 10000.0, "rms_norm_eps": 1e-6, "topk_method": "greedy", "n_group": 1,
    "topk_group": 1, "norm_topk_prob": False, "routed_scaling_factor": 1.0, "tie_word_embeddings": False,
}  # fmt: skip
_TINY = {
    "qwen3-8b": {"hidden_size": 64, "intermediate_size": 96, "num_attention_heads": 4, "num_key_value_heads": 2,
                 "head_dim": 16},
    "deepseek-v2-lite": {"hidden_size": 64, "intermediate_size": 96, "moe_intermediate_size": 32, "n_routed_experts": 4,
                         "num_experts_per_tok": 2, "num_attention_heads": 2, "num_key_value_heads": 2,
                         "kv_lora_rank": 32, "qk_nope_head_dim": 16, "qk_rope_head_dim": 16, "v_head_dim": 16,
                         "head_dim": 16},
}  # fmt: skip
CONFIGURATIONS = {
    "qwen3-8b": ("Qwen3Config", "Qwen3ForCausalLM", _QWEN3_8B),
    "deepseek-v2-lite": ("DeepseekV2Config", "DeepseekV2ForCausalLM", _DEEPSEEK_V2_LITE),
}


@dataclass(frozen=True)
class Prompt:
    dataset: str
    number: int
    tokens: tuple[int, ...]


def build(name: str, tiny: bool, device: str):
    """The model, bf16, random weights from a fixed seed."""
    import transformers

    config_name, model_name, settings = CONFIGURATIONS[name]
    if tiny:
        settings = settings | _TINY[name] | {"num_hidden_layers": 2, "vocab_size": 256}
    config = getattr(transformers, config_name)(**settings)
    torch.manual_seed(0)
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.bfloat16)
    try:
        with torch.device(device):
            return getattr(transformers, model_name)(config).eval()
    finally:
        torch.set_default_dtype(before)


def prompts(dataset: str, first: int, count: int, vocabulary: int, tiny: bool) -> list[Prompt]:
    """The same in every process. Those of the warm-up have other numbers, so other lengths and tokens."""
    median, spread, least, most = LENGTHS[dataset]
    made = []
    for number in range(first, first + count):
        source = random.Random(f"{dataset} {number}")
        length = min(most, max(least, round(median * 2.718281828 ** source.gauss(0, spread))))
        length = 4 + length % 5 if tiny else length
        made.append(Prompt(dataset, number, tuple(source.randrange(vocabulary) for _ in range(length))))
    return made


# -- modes ---------------------------------------------------------------------------------------------------------------


class Modes:
    """`scope(mode)`: PyTorch's operators are those of the mode while it lasts."""

    def __init__(self, flag_gems) -> None:
        self.flag_gems = flag_gems
        self.functions = [getattr(flag_gems, name) for name in WHITELIST]
        self.compiled: dict[str, list] = {}

    @contextlib.contextmanager
    def scope(self, mode: str):
        with contextlib.ExitStack() as stack:
            if mode in ("gems", "ours"):
                stack.enter_context(self._registered())
            if mode.startswith("compile"):
                stack.enter_context(self._registered_compiled(mode))
            if mode == "ours":
                stack.enter_context(trident_hook.enable(include=self.functions))
            yield

    def _registered(self):
        if simulated():
            return flag_gems_sim.registered(self.flag_gems, list(WHITELIST))
        return self.flag_gems.use_gems(include=list(WHITELIST))

    @contextlib.contextmanager
    def _registered_compiled(self, mode: str):
        if mode not in self.compiled:
            options = {"cpp_wrapper": True} if mode == "compile-cpp" else None
            backend = {"backend": "eager"} if simulated() else {"options": options}
            self.compiled[mode] = [torch.compile(copy_of(fn), **backend) for fn in self.functions]
        library = torch.library.Library("aten", "IMPL")
        for name, fn in zip(WHITELIST, self.compiled[mode], strict=True):
            library.impl(name, fn, "CPU" if simulated() else "CUDA")
        try:
            yield
        finally:
            library._destroy()

    def counts(self) -> dict:
        """Of our functions: hits, misses and what is left alone."""
        found = {name: trident_hook.counts(fn) for name, fn in zip(WHITELIST, self.functions, strict=True)}
        return {
            name: {what: count.get(what, 0) for what in ("hits", "misses", "python")} for name, count in found.items()
        }


# -- one request -----------------------------------------------------------------------------------------------------------


@torch.inference_mode()
def generate(model, prompt: Prompt, new_tokens: int, device: str) -> tuple[list[int], list[float]]:
    """(tokens, seconds from the request's begin to each of them). The device is idle after each token."""
    from transformers import DynamicCache

    synchronize()
    start = time.perf_counter()
    cache = DynamicCache()
    tokens, times = [], []
    given = torch.tensor([prompt.tokens], device=device)
    for _ in range(new_tokens):
        logits = model(input_ids=given, past_key_values=cache, use_cache=True, logits_to_keep=1).logits
        given = logits[:, -1].argmax(dim=-1, keepdim=True)
        tokens.append(int(given))  # waits for the device, as a program that streams tokens does
        times.append(time.perf_counter() - start)
    return tokens, times


def metrics(times: list[float]) -> dict:
    """Milliseconds. itl: the gaps between tokens, one by one; tpot: their mean."""
    gaps = [(b - a) * 1e3 for a, b in itertools.pairwise(times)]
    tpot = (times[-1] - times[0]) / max(1, len(times) - 1) * 1e3
    return {"e2e": times[-1] * 1e3, "ttft": times[0] * 1e3, "tpot": tpot, "itl": [round(gap, 3) for gap in gaps]}


# -- results -----------------------------------------------------------------------------------------------------------------


def spread(values: list[float]) -> dict:
    ordered = sorted(values)
    p90 = ordered[min(len(ordered) - 1, int(0.9 * len(ordered)))]
    return {"median": round(statistics.median(ordered), 3), "p90": round(p90, 3)}


def summary(rows: list[dict]) -> list[dict]:
    """One line for each dataset and mode: median and p90 of each metric over its requests, and how many requests gave
    the tokens that FlagGems eager gave."""
    lines = []
    for dataset in dict.fromkeys(row["dataset"] for row in rows):
        reference = {row["number"]: row["tokens"] for row in rows if (row["dataset"], row["mode"]) == (dataset, "gems")}
        for mode in MODES:
            mine = [row for row in rows if (row["dataset"], row["mode"]) == (dataset, mode)]
            if not mine:
                continue
            line = {"dataset": dataset, "mode": mode, "requests": len(mine)}
            line["same_tokens"] = sum(row["tokens"] == reference.get(row["number"]) for row in mine)
            for name in METRICS:
                values = [v for row in mine for v in (row[name] if name == "itl" else [row[name]])]
                line[name] = spread(values) if values else None
            lines.append(line)
    return lines


def table(result: dict) -> str:
    heads = ["dataset", "mode", "requests", "tokens as FlagGems eager"]
    heads += [f"{name} ms (p90)" for name in METRICS] + ["e2e: faster than FlagGems eager", "tpot", "tpot: than native"]
    text = [f"`{result['model']}`: medians over requests.", "", f"| {' | '.join(heads)} |"]
    text.append("| --- | --- |" + " ---: |" * (len(heads) - 2))
    known = {(line["dataset"], line["mode"]): line for line in result["summary"]}

    def times(line: dict, other: str, name: str) -> str:
        rival = known.get((line["dataset"], other))
        return f"{rival[name]['median'] / line[name]['median']:.2f}x" if rival else ""

    for line in result["summary"]:
        cells = [f"{line[n]['median']:.1f} ({line[n]['p90']:.1f})" if line[n] else "" for n in METRICS]
        cells += [times(line, "gems", "e2e"), times(line, "gems", "tpot"), times(line, "native", "tpot")]
        same = f"{line['same_tokens']} of {line['requests']}"
        text.append(f"| {' | '.join([line['dataset'], line['mode'], str(line['requests']), same, *cells])} |")
    for mode, why in result.get("left_out", {}).items():
        text.append(f"\nLeft out: {mode}: {why}")
    return "\n".join(text) + "\n"


def write(result: dict, out: Path) -> None:
    result["summary"] = summary(result["rows"])
    name = f"models_{result['model']}"
    (out / f"{name}.json").write_text(json.dumps(result, default=str) + "\n")
    (out / f"{name}.md").write_text(table(result))


# -- the run -----------------------------------------------------------------------------------------------------------------


def tune(model, modes: Modes, wanted: list[Prompt], device: str) -> float:
    """Seconds of FlagGems' own tuning: every prompt once, with two tokens."""
    started = time.perf_counter()
    with modes.scope("gems"):
        for prompt in wanted:
            generate(model, prompt, 2, device)
    return time.perf_counter() - started


def warm(model, modes: Modes, mode: str, wanted: list[Prompt], options, device: str) -> str | None:
    """None, or why the mode cannot run."""
    try:
        with modes.scope(mode):
            for prompt in wanted:
                generate(model, prompt, min(options.new_tokens, options.warm_up_tokens), device)
                trident_hook.settle()
            if mode == "ours" and options.autoselect:
                prompt = wanted[0]
                print(trident_hook.autoselect(lambda: generate(model, prompt, options.warm_up_tokens, device)))
    except Exception as error:
        return f"{type(error).__name__}: {error}".strip().splitlines()[0][:300]
    return None


def run(options, result: dict) -> None:
    flag_gems = load(options.configs)
    device = "cpu" if simulated() else "cuda"
    logging.getLogger("torch._dynamo").setLevel(logging.ERROR)
    torch._dynamo.config.recompile_limit = 64
    trident_hook.config.limit = 64
    model, modes = build(options.model, options.tiny, device), Modes(flag_gems)
    vocabulary = model.config.vocab_size
    measured = [p for d in options.datasets for p in prompts(d, 0, options.requests, vocabulary, options.tiny)]
    warming = [p for d in options.datasets for p in prompts(d, 1000, options.warm_up, vocabulary, options.tiny)]
    result["conditions"] = conditions() | {"flag_gems": flag_gems.__version__, "configs": options.configs or "all",
                                           "new_tokens": options.new_tokens, "tiny": options.tiny}  # fmt: skip
    result["tuning_s"] = round(tune(model, modes, [*warming, *measured], device), 2)
    print(f"tuned in {result['tuning_s']} s", flush=True)
    left_out = result["left_out"] = {}
    for mode in options.modes:
        why = warm(model, modes, mode, warming, options, device)
        if why is not None:
            left_out[mode] = why
    print(f"warm; left out: {left_out}", flush=True)
    known = {(row["dataset"], row["number"], row["mode"]) for row in result["rows"]}
    for prompt in measured:
        for mode in options.modes:
            if mode in left_out or (prompt.dataset, prompt.number, mode) in known:
                continue
            with modes.scope(mode):
                before = modes.counts()
                tokens, times = generate(model, prompt, options.new_tokens, device)
                after = modes.counts()
            row = {"dataset": prompt.dataset, "number": prompt.number, "mode": mode, "prompt": len(prompt.tokens)}
            row |= metrics(times) | {"tokens": tokens}
            if mode == "ours":
                row["routes"] = {n: {k: after[n][k] - before[n][k] for k in after[n]} for n in after}
            result["rows"].append(row)
            write(result, options.out)
            print(f"{prompt.dataset} {prompt.number} {mode:12} e2e {row['e2e']:.1f} ms, ttft {row['ttft']:.1f}, "
                  f"tpot {row['tpot']:.2f} {row.get('routes', '')}", flush=True)  # fmt: skip
    result["explained"] = {
        name: str(trident_hook.explain(fn)).split("specialization 0")[0]
        for name, fn in zip(WHITELIST, modes.functions, strict=True)
    }
    write(result, options.out)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/latest"))
    parser.add_argument("--model", choices=CONFIGURATIONS, default="qwen3-8b")
    parser.add_argument("--modes", nargs="*", choices=MODES, default=list(MODES))
    parser.add_argument("--datasets", nargs="*", choices=LENGTHS, default=list(LENGTHS))
    parser.add_argument("--requests", type=int, default=4, help="measured requests for each dataset and mode")
    parser.add_argument("--warm-up", type=int, default=4, help="requests before, for each dataset and mode")
    parser.add_argument("--warm-up-tokens", type=int, default=8)
    parser.add_argument("--new-tokens", type=int, default=128)
    parser.add_argument("--configs", type=int, help="configs that each of FlagGems' tuners keeps")
    parser.add_argument("--autoselect", action="store_true", help="leave alone what is slower when served")
    parser.add_argument("--resume", action="store_true", help="keep the rows that are there")
    parser.add_argument("--tiny", action="store_true", help="two layers, tiny sizes")
    options = parser.parse_args()
    if not options.tiny and not torch.cuda.is_available():
        print("a full-size model needs a GPU; --tiny runs anywhere", file=sys.stderr)
        return 2
    options.out.mkdir(parents=True, exist_ok=True)
    target = options.out / f"models_{options.model}.json"
    result = {"kind": "models", "model": options.model, "rows": []}
    if options.resume and target.exists():
        result["rows"] = json.loads(target.read_text())["rows"]
    run(options, result)
    print((options.out / f"models_{options.model}.md").read_text())
    wrong = [line for line in result["summary"] if line["mode"] == "ours" and line["same_tokens"] != line["requests"]]
    if wrong and "gems" in options.modes:
        print(f"tokens differ from FlagGems eager: {wrong}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
