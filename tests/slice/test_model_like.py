"""A small decoder written as model libraries write theirs: a registry of output classes, a decorator that sets a context variable around
`forward`, outputs that are dicts and dataclasses at once, a cache that grows."""

from __future__ import annotations

import contextvars
import dataclasses
import functools

import pytest
import torch

import trident_hook

COLLECTED: contextvars.ContextVar = contextvars.ContextVar("collected", default=None)
REGISTERED: set = set()


def collects(function):
    @functools.wraps(function)
    def wrapper(self, *args, **kwargs):
        token = COLLECTED.set({})
        try:
            output = function(self, *args, **kwargs)
        finally:
            COLLECTED.reset(token)
        return output

    return wrapper


@dataclasses.dataclass
class Output:
    logits: torch.Tensor
    cache: object = None


class Cache:
    def __init__(self):
        self.layers: list = []

    def update(self, index, keys):
        if index == len(self.layers):
            self.layers.append(keys)
        else:
            self.layers[index] = torch.cat([self.layers[index], keys], dim=-2)
        return self.layers[index]


class Layer(torch.nn.Module):
    def __init__(self, index):
        super().__init__()
        self.index, self.linear = index, torch.nn.Linear(8, 8)

    def forward(self, x, cache):
        keys = cache.update(self.index, self.linear(x))
        return x + torch.softmax(x @ keys.transpose(-1, -2), -1) @ keys


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList([Layer(0), Layer(1)])

    @collects
    def forward(self, x, cache=None):
        cache = Cache() if cache is None else cache
        for layer in self.layers:
            x = layer(x, cache)
        if Output not in REGISTERED:
            x = x * 2
        return Output(logits=x, cache=cache)


@pytest.fixture(autouse=True)
def sync(monkeypatch):
    monkeypatch.setattr(trident_hook.config, "build", "sync")
    monkeypatch.setitem(globals(), "REGISTERED", {Output, Cache})


def decode(forward, model, steps):
    torch.manual_seed(1)
    found, cache, x = [], None, torch.randn(1, 5, 8)
    for _ in range(steps):
        output = forward(model, x, cache)
        assert COLLECTED.get() is None
        cache, x = output.cache, output.logits[:, -1:]
        found.append(output.logits)
    return [*found, *cache.layers]


def test_a_decode_with_a_cache_is_served():
    torch.manual_seed(0)
    model, forward = Model(), Model.forward
    with torch.no_grad():
        expected = decode(forward, model, 12)
        served = trident_hook.jit(forward)
        found = decode(served, model, 12)
    assert all(torch.equal(one, other) for one, other in zip(expected, found, strict=True))
    assert trident_hook.counts(served)["hits"] >= 8
    assert len(trident_hook.explain(served).specializations) <= 6


def test_a_member_that_leaves_the_registry_is_a_miss():
    def asks(x):
        return x * 2 if Output in REGISTERED else x + 1

    served, x = trident_hook.jit(asks), torch.arange(4.0)
    for _ in range(3):
        assert torch.equal(served(x), x * 2)
    assert trident_hook.counts(served)["hits"] == 2
    REGISTERED.discard(Output)
    assert torch.equal(served(x), x + 1)
    REGISTERED.add(Output)
    REGISTERED.add(Model)
    assert torch.equal(served(x), x * 2)


class Base:
    limit = 3

    def grows(self, x):
        return x + self.limit


class One(Base):
    pass


def test_two_ways_to_the_namespace_of_one_class_are_no_two_objects():
    def calls(x, items):
        for item in items:
            x = item.grows(x) * len(type(item).__mro__)
        return x + super(One, items[0]).limit + super(One, items[1]).limit

    served, x, items = trident_hook.jit(calls), torch.arange(4.0), [One(), One()]
    for _ in range(3):
        assert torch.equal(served(x, items), calls(x, items))
    assert trident_hook.counts(served)["hits"] == 2
