"""Two copies of the operator library for each test: one that is served, one that nobody knows of."""

from __future__ import annotations

import importlib.util
import itertools
import sys
from pathlib import Path

import pytest
from support import slate

import trident_hook

from .library import Library

_number = itertools.count()


@pytest.fixture(autouse=True)
def clean_slate(cache_dir):
    with slate.clean(cache_dir):
        yield


@pytest.fixture
def load():
    """load() -> a copy of `functions` with code and kernels of its own."""
    made = []

    def fresh():
        name = f"autograd_functions_{next(_number)}"
        spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name("functions.py"))
        made.append(name)
        sys.modules[name] = module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    yield fresh
    for name in made:
        del sys.modules[name]


@pytest.fixture
def plain(load):
    return Library(load())


@pytest.fixture
def served(load):
    """Forward and backward of every Function are served, through their call doors."""
    library = Library(load())
    with trident_hook.enable(include=library.directions()):
        yield library
