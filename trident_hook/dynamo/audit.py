"""Lists the places of the installed PyTorch's Dynamo where something that is read from a value becomes a constant of the trace, or
where a call is dropped, by reading its sources. `python -m trident_hook.dynamo.audit` prints those that docs/dynamo_folds.txt has no
verdict for; `--all` prints all.

A place is an expression in a function that makes a constant (`ConstantVariable.create`, `VariableTracker.build` without a source,
...) of something that is no literal, where that function installs no guard, and a `return` of the constant None. It is named by file,
function and expression, so that a change of any of them is a new place."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

#: How Dynamo makes a constant: (class or None, function).
_MAKERS = {("ConstantVariable", "create"), ("ConstantVariable", ""), ("SourcelessBuilder", "create"), ("VariableTracker", "build"),
           ("variables.ConstantVariable", "create"), ("variables.ConstantVariable", "")}  # fmt: skip
_GUARDS = frozenset(
    ("install_guard", "make_guard", "install_guards", "install_dict_contains_guard", "install_dict_keys_match_guard")
)
_FILES = ("variables/*.py", "symbolic_convert.py", "utils.py", "side_effects.py", "polyfills/*.py")


def dynamo_folder() -> Path:
    import torch._dynamo

    return Path(torch._dynamo.__file__).parent


def places(folder: Path) -> list[str]:
    """All of them, each once, in order."""
    found: dict[str, None] = {}
    for pattern in _FILES:
        for path in sorted(folder.glob(pattern)):
            tree = ast.parse(path.read_text())
            for place in _places_of(tree, path.relative_to(folder).as_posix()):
                found[place] = None
    return list(found)


def _places_of(tree: ast.AST, file: str) -> Iterator[str]:
    for name, function in _functions(tree, ""):
        own = list(_own_nodes(function))
        if any(_called(node)[1] in _GUARDS for node in own if isinstance(node, ast.Call)):
            continue
        for node in own:
            if (isinstance(node, ast.Call) and _makes_a_constant(node)) or (
                isinstance(node, ast.Return) and "CONSTANT_VARIABLE_NONE" in ast.dump(node)
            ):
                yield f"{file} {name}: {_text(node)}"


def _functions(node: ast.AST, prefix: str) -> Iterator[tuple[str, ast.AST]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield prefix + child.name, child
        inner = prefix + child.name + "." if isinstance(child, (ast.FunctionDef, ast.ClassDef)) else prefix
        yield from _functions(child, inner)


def _own_nodes(function: ast.AST) -> Iterator[ast.AST]:
    """Of a function without those that are defined in it."""
    for child in ast.iter_child_nodes(function):
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            continue
        yield child
        yield from _own_nodes(child)


def _called(call: ast.Call) -> tuple[str, str]:
    function = call.func
    if isinstance(function, ast.Attribute):
        owner = ast.unparse(function.value)
        is_class = function.attr == "ConstantVariable"
        return (ast.unparse(function), "") if is_class else (owner, function.attr)
    return (
        ("ConstantVariable", "")
        if getattr(function, "id", "") == "ConstantVariable"
        else ("", getattr(function, "id", ""))
    )


def _makes_a_constant(call: ast.Call) -> bool:
    owner, name = _called(call)
    if (owner, name) not in _MAKERS:
        return False
    given = [*call.args, *(keyword.value for keyword in call.keywords)]
    if name == "build" and (len(call.args) > 2 or any(k.arg == "source" for k in call.keywords)):
        return False  # a value with a source is guarded by its builder
    values = given[1:] if (owner, name) in {("SourcelessBuilder", "create"), ("VariableTracker", "build")} else given
    return not all(isinstance(value, ast.Constant) for value in values)


def _text(node: ast.AST) -> str:
    text = " ".join(ast.unparse(node).split())
    return text if len(text) <= 160 else text[:157] + "..."


def verdicts(page: Path) -> dict[str, str]:
    """Place -> verdict, of a page of lines `verdict<tab>place`; others are words for people."""
    lines = (line.split("\t", 1) for line in page.read_text().splitlines() if "\t" in line)
    return {place: verdict for verdict, place in lines}


def without_verdict(page: Path) -> list[str]:
    known = verdicts(page)
    return [place for place in places(dynamo_folder()) if place not in known]


def main() -> int:
    if "--all" in sys.argv:
        print("\n".join(places(dynamo_folder())))
        return 0
    page = Path(__file__).parents[2] / "docs" / "dynamo_folds.txt"
    missing = without_verdict(page)
    print("\n".join(missing))
    return min(len(missing), 1)


if __name__ == "__main__":
    sys.exit(main())
