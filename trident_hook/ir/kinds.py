"""The kinds of guards, steps, roots and conditions, each once, with what every part of the program has to know of it.

Who treats kinds differently has a table with a row for each of them; tests/codegen/test_kind_tables.py asks all tables whether
they are complete, so that a new kind is a failing test where somebody has forgotten it. Kinds are strings: their values stand in
names and texts."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class RootKind(enum.StrEnum):
    """Where a source begins."""

    LOCAL = "local"
    GLOBAL = "global"
    OBJECT = "object"
    NONE = "none"


class StepKind(enum.StrEnum):
    """How a source goes on."""

    ATTR = "attr"
    GENERIC_DICT = "generic_dict"
    SPACE = "space"
    DICT_ITEM = "dict_item"
    TUPLE_ITEM = "tuple_item"
    LIST_ITEM = "list_item"
    TYPE = "type"
    TYPE_DICT = "type_dict"
    TYPE_MRO = "type_mro"
    CODE = "code"
    CLOSURE = "closure"
    DEFAULTS = "defaults"
    KWDEFAULTS = "kwdefaults"
    DICT_KEY_AT = "dict_key_at"
    DICT_VALUE_AT = "dict_value_at"
    ITEM = "item"
    CALL = "call"
    APPLY = "apply"


@dataclass(frozen=True)
class StepFacts:
    """`says`: what it reads. `tells`: where it is part of the environment, what it reads cannot become another without a word."""

    says: str
    tells: bool = True


STEPS = {
    StepKind.ATTR: StepFacts("getattr(value, key)"),
    StepKind.GENERIC_DICT: StepFacts("the instance or module __dict__ of the value"),
    StepKind.SPACE: StepFacts("the same where somebody has asked the instance for it, else nothing"),
    StepKind.DICT_ITEM: StepFacts("value[key] for an exact or sub-classed dict"),
    StepKind.TUPLE_ITEM: StepFacts("value[key] for a tuple"),
    StepKind.LIST_ITEM: StepFacts("value[key] for a list", tells=False),
    StepKind.TYPE: StepFacts("type(value)"),
    StepKind.TYPE_DICT: StepFacts("value.__dict__ of a type"),
    StepKind.TYPE_MRO: StepFacts("value.__mro__"),
    StepKind.CODE: StepFacts("function.__code__"),
    StepKind.CLOSURE: StepFacts("function.__closure__"),
    StepKind.DEFAULTS: StepFacts("function.__defaults__"),
    StepKind.KWDEFAULTS: StepFacts("function.__kwdefaults__"),
    StepKind.DICT_KEY_AT: StepFacts("the key at a position of a dict"),
    StepKind.DICT_VALUE_AT: StepFacts("the value at a position of a dict"),
    StepKind.ITEM: StepFacts("value[key] of any other container", tells=False),
    StepKind.CALL: StepFacts("value()", tells=False),
    StepKind.APPLY: StepFacts("function(value): Dynamo's own accessor, written in Python", tells=False),
}


class GuardKind(enum.StrEnum):
    """What a guard asks."""

    TENSOR = "tensor"
    TYPE = "type"
    ID = "id"
    EQUALS = "equals"
    MEMBERS = "members"
    NONE = "none"
    NOT_NONE = "not_none"
    TRUE = "true"
    FALSE = "false"
    FINITE = "finite"
    NAN = "nan"
    LENGTH = "length"
    DICT_LENGTH = "dict_length"
    DICT_CONTAINS = "dict_contains"
    NO_ATTR = "no_attr"
    DISTINCT = "distinct"
    ENV_DISTINCT = "env_distinct"
    NOT_OF_ENV = "not_of_env"
    SAME = "same"
    SHAPE = "shape"
    CLASS_FACTS = "class_facts"
    PLAIN_CONTEXT = "plain_context"
    DEFAULT_DEVICE = "default_device"
    RESIDUAL = "residual"


class Sources(enum.Enum):
    """Which sources a guard has."""

    ONE = enum.auto()  # `source`
    PAIR = enum.auto()  # `source` and `arg`
    MANY = enum.auto()  # all of `arg`; `source` is the first


class DependsOn(enum.Enum):
    """What a guard depends on."""

    ITS_SOURCES = enum.auto()  # the call, where one of them begins there; else the environment
    CALL = enum.auto()
    ENVIRONMENT = enum.auto()


@dataclass(frozen=True)
class GuardFacts:
    """`arg`: what the guard's argument is. `tells`: where it is about the environment, its answer can only change with something
    that runtime/watching.py watches or pins, as long as all steps of its sources tell."""

    arg: str
    tells: bool
    sources: Sources = Sources.ONE
    depends_on: DependsOn = DependsOn.ITS_SOURCES


GUARDS = {
    GuardKind.TENSOR: GuardFacts("TensorFacts", tells=False),
    GuardKind.TYPE: GuardFacts("the exact type (object)", tells=True),
    GuardKind.ID: GuardFacts("the object itself", tells=True),
    GuardKind.EQUALS: GuardFacts("a constant of the same exact type", tells=True),
    GuardKind.MEMBERS: GuardFacts("a set of plain constants: an equal one of the same exact type, in whatever order", tells=False),
    GuardKind.NONE: GuardFacts("", tells=True),
    GuardKind.NOT_NONE: GuardFacts("", tells=True),
    GuardKind.TRUE: GuardFacts("", tells=True),
    GuardKind.FALSE: GuardFacts("", tells=True),
    GuardKind.FINITE: GuardFacts("a float that is neither infinite nor NaN, whatever its value", tells=False),
    GuardKind.NAN: GuardFacts("the very NaN: sign and payload count", tells=True),
    GuardKind.LENGTH: GuardFacts("a length of a list or tuple (or another sized object)", tells=False),
    GuardKind.DICT_LENGTH: GuardFacts("number of keys", tells=True),
    GuardKind.DICT_CONTAINS: GuardFacts("(wanted: bool, key)", tells=True),
    GuardKind.NO_ATTR: GuardFacts("attribute name that must be absent", tells=False),
    GuardKind.DISTINCT: GuardFacts(
        "sources: all must be distinct objects", tells=False, sources=Sources.MANY, depends_on=DependsOn.CALL
    ),
    GuardKind.ENV_DISTINCT: GuardFacts(
        "sources of the environment: all must be distinct objects", tells=True, sources=Sources.MANY
    ),
    GuardKind.NOT_OF_ENV: GuardFacts(
        "sources of the call: none may be one of the objects of `env_distinct`",
        tells=False, sources=Sources.MANY, depends_on=DependsOn.CALL,
    ),
    GuardKind.SAME: GuardFacts("a source: both must be the same object", tells=True, sources=Sources.PAIR),
    GuardKind.SHAPE: GuardFacts("ShapeText", tells=False, depends_on=DependsOn.CALL),
    GuardKind.CLASS_FACTS: GuardFacts(
        "ClassFacts: the attributes that a class, its bases and its metaclass had", tells=True
    ),
    GuardKind.PLAIN_CONTEXT: GuardFacts(
        "_rt.context_is_plain: of a torch.autograd.Function; without it the call is a bypass", tells=False
    ),
    GuardKind.DEFAULT_DEVICE: GuardFacts(
        "torch.utils._device.CURRENT_DEVICE, a global of a module", tells=True, depends_on=DependsOn.ENVIRONMENT
    ),
    GuardKind.RESIDUAL: GuardFacts("(leaf guard, the tree that owns it): the leaf is called with the value", tells=False),
}  # fmt: skip

#: Kinds that can be watched: what a plan protects, and the steps of its check are written for.
WATCHED = frozenset(kind for kind, facts in GUARDS.items() if facts.tells)


class Matter(enum.StrEnum):
    """What of a value a watched guard depends on."""

    IDENTITY = "identity"
    TYPE = "type"
    ATTRIBUTES = "attributes"  # of a class
    CONTAINS = "contains"  # a key; given as (CONTAINS, key)
    KEYS = "keys"  # of a dict
    EMPTY_LIST = "empty_list"


class ConditionKind(enum.StrEnum):
    """What must hold for any call."""

    EMPTY_LIST = "empty_list"
    NOT_EAGER = "not_eager"  # of the object with torch.compiler's stance


class CheckKind(enum.StrEnum):
    """What a check of a specialization is about that is no guard."""

    STATE = "state"
    GLOBALS = "globals"
    SYMBOLS = "symbols"
    DEVICE = "device"
    ARGUMENT = "argument"
    HOOKS = "hooks"
    POINTER = "pointer"
    INT = "int"
    KEY = "key"
