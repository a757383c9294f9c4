"""What a function can reach: the Tensors, and the Python state that decides what it does.

A compiled step is replayed without its Python, so everything that Python looks at
must be known to be as it was.  From the function's code, its closure, the globals
it names and its arguments the walk follows functions, methods, attributes that the
code names, lists, dicts, tuples and sets.  Tensors are ends of it: they are handles,
and read anew at each call.  Everything else is remembered by identity, and numbers
and strings by value.

What cannot be watched (an iterator, a large array that anybody may write) is
given as a ``reason``: such a step is right only if its Python runs at each call.
"""

from __future__ import annotations

import array
import contextvars
import functools
import math
import random
import sys
import threading
import types
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dis import get_instructions
from itertools import chain, repeat
from operator import attrgetter, call, is_, itemgetter
from typing import Any, NamedTuple

import numpy as np

from .graph import Node
from .tensor import Tensor

LARGE = 4096  # elements of a container that are looked at in each call
BYTES = 1 << 16  # and of an array
MANY = 20_000  # things in all

MISSING = object()
_contents = attrgetter("cell_contents")
_code = attrgetter("__code__")
_defaults = attrgetter("__defaults__")
_PLAIN = (bool, int, float, complex, str, bytes, type(None), type(...), np.generic, np.dtype)
_OPAQUE = {"torsh_fx", "jax", "jaxlib", "numpy", "ml_dtypes", "builtins", "logging"}  # objects nobody steers a step by
_LIBRARIES = {*_OPAQUE, *sys.stdlib_module_names} - {"__main__"}
_AT_BIRTH = {"__init__", "__new__", "__init_subclass__", "__set_name__", "__repr__", "__str__"}
_WHOLE = {"__dict__", "vars", "getattr", "attrgetter", "hasattr"}  # code that says so may look at any attribute


class Names(NamedTuple):
    """What a piece of code names."""

    globals: frozenset[str]
    attributes: frozenset[str]


@functools.lru_cache(maxsize=4096)
def names_of(code: types.CodeType) -> Names:
    """The globals and the attributes that ``code`` names, with all that is defined in it."""
    found: set[str] = set()
    attributes: set[str] = set()
    for i in get_instructions(code):
        if "ATTR" in i.opname or "METHOD" in i.opname or i.opname == "IMPORT_FROM":
            attributes.add(i.argval)
        elif "GLOBAL" in i.opname or i.opname.endswith("_NAME"):
            found.add(i.argval)
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            inner = names_of(const)
            found |= inner.globals
            attributes |= inner.attributes
    return Names(frozenset(found), frozenset(attributes))


def same(a: Any, b: Any) -> bool:
    """Are they the same object, or plain values nobody can tell apart?"""
    if a is b:
        return True
    kind = a.__class__
    if kind is not b.__class__:
        return False
    if kind is float:
        return bool(a == b and math.copysign(1, a) == math.copysign(1, b)) or (a != a and b != b)
    if kind is tuple:
        return len(a) == len(b) and all(map(same, a, b))
    if issubclass(kind, (complex, np.generic)):
        return repr(a) == repr(b)
    return issubclass(kind, _PLAIN) and bool(a == b)


def alike(now: Sequence[Any], before: Sequence[Any]) -> bool:
    """Are they ``same``, one by one?"""
    if len(now) != len(before):
        return False
    return all(map(is_, now, before)) or all(map(same, now, before))


class Watch:
    """Everything that is reached from ``roots``, as it is now."""

    def __init__(self, roots: Iterable[Any]) -> None:
        self.tensors: list[Tensor] = []
        self.reason: str | None = None  # why it cannot be watched
        self._seen: dict[int, Any] = {}
        self._queue: deque[tuple[Any, str]] = deque()
        self._views: list[Iterable[Any]] = []  # containers, as what their elements are read from
        self._functions: list[types.FunctionType] = []
        self._cells: list[Any] = []
        self._looked_up: list[tuple[Any, str, str]] = []  # where, which name, where in words
        self._watched: set[tuple[int, str]] = set()
        self._first: list[Any] = []  # what was found there
        self._slots: list[tuple[Any, str]] = []
        self._sizes: list[Any] = []
        self._arrays: list[tuple[Any, bytes]] = []
        self._sources: list[tuple[Any, Any]] = []  # random generators of others, and their states
        self._names: set[str] = set()
        self._spaces: list[tuple[Any, str, set[str]]] = []  # what is looked up by name, and which names were
        for k, root in enumerate(roots):
            self._reach(root, f"argument {k}" if k else "the function")
        self._walk()
        self._picks, self._places, self._absent = self._grouped()
        self._lengths = list(map(len, self._sizes))
        self._expected = list(self._now())

    # -- asking ---------------------------------------------------------------------------

    def holds(self) -> bool:
        """Is everything as it was?"""
        try:
            if list(map(len, self._sizes)) != self._lengths:
                return False
            if not all(map(is_, self._now(), self._expected)):
                now = list(self._now())
                if not alike(now, self._expected):
                    return False
                self._expected = now  # equal numbers that are other objects: they are compared with next time
        except (AttributeError, KeyError, ValueError, RuntimeError):  # something is gone, or is being changed
            return False
        return not self._arrays or all(a.tobytes() == content for a, content in self._arrays)

    def difference(self) -> str | None:
        """What is not as it was, in words; None if everything is."""
        if self.holds():
            return None
        for (space, name, label), value in zip(self._looked_up, self._first, strict=True):
            if not same(space.get(name, MISSING), value):
                return f"{name} of {label}"
        return "a variable or container that it uses"

    def drawn(self) -> bool:
        """Was a generator of Python's or NumPy's used that is reached?"""
        return any(_state(g) != state for g, state in self._sources)

    def _grouped(self) -> tuple[list[Any], list[Any], list[tuple[Any, str]]]:
        """What is looked up, by where: all names of one place at once, and names that are nowhere yet."""
        places: dict[int, tuple[Any, list[str]]] = {}
        absent = []
        for space, name, _ in self._looked_up:
            if name in space:
                places.setdefault(id(space), (space, []))[1].append(name)
            else:
                absent.append((space, name))
        picks = [itemgetter(names[0], *names) for _, names in places.values()]  # two at least, for a tuple
        return picks, [space for space, _ in places.values()], absent

    def _now(self) -> Iterator[Any]:
        """Everything that is compared; how many in each part is known from ``_sizes``."""
        return chain(
            chain.from_iterable(map(call, self._picks, self._places)),
            chain.from_iterable(self._views),
            map(_contents, self._cells),
            map(_code, self._functions),  # a notebook may exchange it
            map(_defaults, self._functions),
            (name in space for space, name in self._absent) if self._absent else (),
            (getattr(thing, name, MISSING) for thing, name in self._slots) if self._slots else (),
        )

    # -- walking --------------------------------------------------------------------------

    def _walk(self) -> None:
        """To the end: names that are found late count for what was found early."""
        while self._queue:
            while self._queue:
                self._visit(*self._queue.popleft())
                if len(self._seen) > MANY:
                    self.reason = f"it reaches more than {MANY} things"
                    return
            for space, label, known in self._spaces:
                for name in sorted(self._names - known):
                    self._look_up(space, name, label)
                if self._names & _WHOLE and not known & _WHOLE and space.__class__ is dict:
                    self._container(space, label, deep=not label.startswith("module"))
                known |= self._names

    def _reach(self, value: Any, label: str) -> None:
        if not isinstance(value, _PLAIN) and id(value) not in self._seen:
            self._seen[id(value)] = value
            self._queue.append((value, label))

    def _visit(self, value: Any, label: str) -> None:
        kind = value.__class__
        if isinstance(value, Tensor):
            if isinstance(value._node, Node):  # else it stands for a place in a tree
                self.tensors.append(value)
            if value._view is not None:
                self._reach(value._view.base, label)
            for name in value.__dict__:
                if not name.startswith("_"):  # an attribute that somebody gave it
                    self._watch_name(value.__dict__, name, "a Tensor")
        elif isinstance(value, types.FunctionType):
            self._function(value)
        elif isinstance(value, types.MethodType):
            self._reach(value.__func__, label)
            self._reach(value.__self__, label)
        elif isinstance(value, functools.partial):
            self._reach_all((value.func, value.args, value.keywords), label)
        elif isinstance(value, (staticmethod, classmethod, functools.cached_property, property)):
            inner = [getattr(value, n, None) for n in ("__func__", "func", "fget", "fset")]
            self._reach_all(inner, label)
        elif isinstance(value, types.ModuleType):
            if not _of_library(value.__name__):
                self._spaces.append((value.__dict__, f"module {value.__name__}", set()))
        elif isinstance(value, type):
            self._class(value)
        elif isinstance(value, np.ndarray):
            self._array(value)
        elif isinstance(value, (dict, list, tuple, set, frozenset, deque, types.MappingProxyType)):
            self._container(value, label)
            self._object(value, label)
        elif isinstance(value, Iterator) and _of_library(kind.__module__):
            self.reason = f"it uses an iterator ({kind.__name__}), which moves on unseen"
        elif isinstance(value, (bytearray, memoryview, array.array)):
            self.reason = f"it uses a {kind.__name__}, which anybody may write"
        elif isinstance(value, (threading.local, contextvars.ContextVar)):
            self.reason = f"it uses a {kind.__name__}, which is another in each thread"
        else:
            self._object(value, label)

    def _reach_all(self, values: Iterable[Any], label: str) -> None:
        for value in values:
            self._reach(value, label)

    def _function(self, fn: types.FunctionType) -> None:
        label = getattr(fn, "__name__", "function")
        for name, cell in zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True):
            try:
                self._reach(cell.cell_contents, name)
            except ValueError:  # empty as yet
                self.reason = f"{label} uses {name}, which has no value yet"
                continue
            self._cells.append(cell)
        self._functions.append(fn)
        self._reach_all((fn.__defaults__, fn.__kwdefaults__), label)
        self._sizes.append(fn.__dict__)
        if fn.__dict__:
            self._container(fn.__dict__, label)
        module = str(fn.__globals__.get("__name__", ""))
        if _of_library(module) and not fn.__code__.co_filename.startswith("<doctest"):
            return
        found = names_of(fn.__code__)
        self._names |= found.attributes | (found.globals & _WHOLE)
        for name in sorted(found.globals):
            if name in fn.__globals__ or name not in _builtins:
                if name not in fn.__globals__ and name in sys.modules:  # imported inside
                    self._reach(sys.modules[name], name)
                self._watch_name(fn.__globals__, name, f"module {module}")
            elif name in ("globals", "eval", "exec"):
                self.reason = f"{label} uses {name}()"

    def _watch_name(self, space: Mapping[str, Any], name: str, label: str) -> None:
        if (id(space), name) in self._watched:
            return
        self._watched.add((id(space), name))
        self._looked_up.append((space, name, label))
        value = space.get(name)
        self._first.append(space.get(name, MISSING))
        self._reach(value, label)
        if isinstance(value, type) and not _of_library(value.__module__):  # it may be called
            self._reach_all((vars(value).get("__init__"), vars(value).get("__new__")), label)

    def _look_up(self, space: Any, name: str, label: str) -> None:
        if isinstance(space, Mapping):
            if name in space:
                self._watch_name(space, name, label)
        elif name in _slots_of(space.__class__):
            self._slots.append((space, name))
            self._reach(getattr(space, name, None), label)

    def _class(self, cls: type) -> None:
        for base in cls.__mro__:
            if _of_library(base.__module__) or (base is not cls and id(base) in self._seen):
                continue
            self._seen[id(base)] = base
            self._spaces.append((base.__dict__, f"class {base.__name__}", set()))
            for name, member in list(vars(base).items()):
                if not name.startswith("__") or name in _AT_BIRTH or not isinstance(member, types.FunctionType):
                    continue
                if member.__code__.co_filename != "<string>":  # a data class's, which names all there is
                    self._reach(member, name)

    def _object(self, value: Any, label: str) -> None:
        """An object of a user's class: what the code names of it."""
        kind = value.__class__
        if _of_library(kind.__module__):
            self._reach(getattr(value, "__wrapped__", None), label)
            self._reach_all(getattr(value, "_reached", tuple)(), label)  # of a bridge of ours
            state = _state(value)
            if state is not None:
                self._sources.append((value, state))
            elif kind.__module__.split(".")[0] not in _OPAQUE and isinstance(getattr(value, "__dict__", None), dict):
                self._container(value.__dict__, f"a {kind.__name__}")  # options, for example
            return
        label = f"a {kind.__name__}"
        self._reach(kind, label)
        if _slots_of(kind):
            self._spaces.append((value, label, set()))
        own = getattr(value, "__dict__", None)
        if own is not None:
            self._spaces.append((own, label, set()))
            self._sizes.append(own)  # an attribute that comes may hide one of the class

    def _container(self, value: Any, label: str, deep: bool = True) -> None:
        if len(value) > LARGE:
            self.reason = f"it uses a {type(value).__name__} of {len(value)} elements, too many to look at"
            return
        if isinstance(value, (dict, types.MappingProxyType)):
            self._sizes.append(value)
            self._views.append(value.keys())  # their order, too
            if deep and all(map(isinstance, value, repeat(str))):
                for name in value:
                    self._watch_name(value, name, label)
            else:
                self._views.append(value.values())
                self._reach_all((*value.keys(), *value.values()) if deep else (), label)
            return
        if not isinstance(value, tuple):
            self._sizes.append(value)
            self._views.append(value)
        self._reach_all(value, label)

    def _array(self, value: np.ndarray[Any, Any]) -> None:
        if value.dtype.hasobject or (value.nbytes > BYTES and value.flags.writeable):
            self.reason = f"it uses a NumPy array of {value.nbytes} bytes, which anybody may write"
        elif value.flags.writeable or value.base is not None:
            self._arrays.append((value, value.tobytes()))


_builtins = frozenset(dir(__import__("builtins")))


@functools.lru_cache(maxsize=4096)
def _of_library(module: str) -> bool:
    return module.split(".")[0] in _LIBRARIES


@functools.lru_cache(maxsize=4096)
def _slots_of(cls: type) -> frozenset[str]:
    found: set[str] = set()
    for base in cls.__mro__:
        slots = base.__dict__.get("__slots__", ())
        found |= {slots} if isinstance(slots, str) else set(slots)
    return frozenset(found - {"__dict__", "__weakref__"})


def _state(source: Any) -> Any:
    """The state of a random generator of Python's or NumPy's; None for anything else."""
    if isinstance(source, random.Random):
        return source.getstate()
    if isinstance(source, np.random.Generator):
        return str(source.bit_generator.state)
    if isinstance(source, np.random.RandomState):
        return str(source.get_state(legacy=False))
    return None


def shared_sources() -> Any:
    """The states of the generators that everybody shares, Python's and NumPy's."""
    numpys = np.random.get_state(legacy=False)["state"]
    return random.getstate(), numpys["key"].tobytes(), numpys["pos"]
