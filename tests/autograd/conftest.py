"""Two copies of the operator library for each test: one that is served, one that nobody knows of."""

from __future__ import annotations

import itertools
import sys

import pytest
from support import slate

import trident_hook

from .library import Library, fresh_functions

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
        made.append(name)
        return fresh_functions(name)

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
