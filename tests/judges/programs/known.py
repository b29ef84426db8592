"""What still finds a difference, with the reason: `run` does without it unless it is asked for all. A line goes when the
difference is mended."""

from __future__ import annotations

#: Name of a feature -> what is different today.
OFF: dict[str, str] = {
    "asked_by_isinstance": "answers of isinstance that a class decides itself are folded without a guard",
    "cached_function": "functools.lru_cache is traced through",
    "default_dtype_for_a_while": "setters of PyTorch's state are lost in the graph",
    "detached_in_place": "requires_grad after detach_() is folded",
    "distributed_asked": "whether a process group exists is folded",
    "factorised": "handlers of what fails at run time do not run",
    "forward_mode": "forward-mode levels are entered while tracing",
    "functional_transform": "torch.func answers with a tensor of the trace",
    "grad_field": "fields of .grad are folded",
    "handled": "handlers of what fails at run time do not run",
    "inference_mode": "inference mode is lost in the graph",
    "kernel_of_data": "x.data reaches a kernel as a tensor of the trace",
    "kernel_of_strides": "strides of the trace are not the real ones",
    "kernel_options": "a constexpr named like an option of the launch, an argument given twice",
    "named_tuple": "_replace of a NamedTuple returns an empty one; NamedTuple + tuple is a NamedTuple",
    "names_of_functions": "names and docstrings of functions are folded",
    "operator_that_reads": "globals are written behind operators written in Python that read them",
    "operator_that_sets": "globals are read before operators written in Python that write them",
    "operator_that_writes": "lists are written before operators written in Python that write them",
    "other_strides": "strides of the trace are not the real ones",
    "overridden_empty": "an override of aten::empty is not called",
    "process_asked": "the recursion limit is folded",
    "setters": "setters of PyTorch's state are lost in the graph",
    "version_counters": "_version of fresh tensors counts what filled them",
    "warned_by_an_operator": "warnings of operators are those of the trace",
    "asked_of_an_argument": "answers about hooks, leaves and memory are folded",
    "asked_of_a_result": "answers about hooks, leaves and memory are folded",
}

#: Facts of tensors that are not compared (see trident_hook/verification/tensors.py).
FACTS: dict[str, str] = {"_version": "fresh tensors that a native allocation fills count one more"}
