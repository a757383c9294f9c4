"""``functional_call``: an object with Tensors in it, called with others in their place."""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ..rules import ArgumentTypeError, ArgumentValueError
from ..rules.kinds import shown
from ..tensor import Tensor

_MISSING = object()


def functional_call(
    module: Callable[..., Any],
    parameter_and_buffer_dicts: dict[str, Tensor] | Sequence[dict[str, Tensor]],
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """``module(*args, **kwargs)`` with Tensors in place of its own, which are back afterwards.

    Args:
        module: any callable object that holds Tensors in attributes, also of the objects,
            lists and dicts in them.
        parameter_and_buffer_dicts: Tensors by name, such as "layers.0.weight", in one dict or
            in several without a name in common.  Tensors that are left out stay.
        args: a tuple of arguments, or the only one.
        kwargs: keyword arguments.
        tie_weights: replace one Tensor that has several names under all of them.
        strict: refuse names that are too many or too few.

    Returns:
        What the module returns.  A name that it was given and that it rebinds meanwhile is
        rebound in the dict, as PyTorch does.

    Raises:
        ArgumentTypeError: the module is a plain function or not callable, or the
            dicts do not hold Tensors by name.
        ArgumentValueError: a name leads nowhere, is in two dicts, is tied to another that was
            given something else, or ``strict`` finds one too many or too few.

    Gradient: the module's, by the Tensors that were given.
    Source: ``module``.
    Example:
        >>> class Scale:
        ...     def __init__(self):
        ...         self.factor = tensor([2.0])
        ...     def __call__(self, x):
        ...         return x * self.factor
        >>> scale = Scale()
        >>> loss = lambda params, x: func.functional_call(scale, params, x).sum()
        >>> func.grad(loss)({"factor": tensor([5.0])}, tensor([3.0]))["factor"].tolist(), scale.factor.tolist()
        ([3.0], [2.0])
    """
    if isinstance(module, (types.FunctionType, types.MethodType, types.BuiltinFunctionType)) or not callable(module):
        raise ArgumentTypeError(
            f"[functional_call] needs a callable object that holds Tensors, got {shown(module)}; a function can take "
            "them as an argument"
        )
    given = _merged(parameter_and_buffer_dicts)
    names = dict(_tensors(module, "", set()))
    if strict and names.keys() != given.keys():
        many, few = sorted(given.keys() - names.keys()), sorted(names.keys() - given.keys())
        raise ArgumentValueError(f"[functional_call] unexpected names {many}, missing names {few}, with strict=True")
    places = {name: _owner(module, name) for name in (_tied(names, given) if tie_weights else given)}
    values = _tied(names, given) if tie_weights else given
    before = {name: _get(owner, key) for name, (owner, key) in places.items()}
    arguments = args if isinstance(args, tuple) else () if args is None else (args,)
    try:
        for name, (owner, key) in places.items():
            _set(owner, key, values[name])
        return module(*arguments, **(kwargs or {}))
    finally:
        for name, (owner, key) in places.items():
            now = _get(owner, key)
            if name in given and isinstance(parameter_and_buffer_dicts, dict) and isinstance(now, Tensor):
                parameter_and_buffer_dicts[name] = now
            _set(owner, key, before[name])


def _merged(dicts: Any) -> dict[str, Tensor]:
    several = [dicts] if isinstance(dicts, Mapping) else dicts
    if not isinstance(several, Sequence) or not all(isinstance(d, Mapping) for d in several):
        raise ArgumentTypeError(f"[functional_call] needs a dict of Tensors or several, got {shown(dicts)}")
    merged: dict[str, Tensor] = {}
    for given in several:
        for name, value in given.items():
            if not isinstance(name, str) or not isinstance(value, Tensor):
                raise ArgumentTypeError(f"[functional_call] needs Tensors by name, got {shown(value)} for {name!r}")
            if name in merged:
                raise ArgumentValueError(f"[functional_call] {name!r} is in more than one dict")
            merged[name] = value
    return merged


def _tied(names: dict[str, Tensor], given: dict[str, Tensor]) -> dict[str, Tensor]:
    """What was given, also under the other names of the same Tensor."""
    found = dict(given)
    for name, value in given.items():
        if name not in names:
            continue
        for other in [n for n, t in names.items() if t is names[name]]:
            if other in given and given[other] is not value:
                raise ArgumentValueError(
                    f"[functional_call] {name!r} and {other!r} are one Tensor and were given two; "
                    "give one, or say tie_weights=False"
                )
            found[other] = value
    return found


def _tensors(thing: Any, prefix: str, seen: set[int]) -> Iterator[tuple[str, Tensor]]:
    """Every Tensor below ``thing`` with its name; one that has several comes several times."""
    if id(thing) in seen:
        return
    seen.add(id(thing))
    for key, value in _parts(thing):
        if isinstance(value, Tensor):
            yield f"{prefix}{key}", value
        else:
            yield from _tensors(value, f"{prefix}{key}.", seen)


def _parts(thing: Any) -> list[tuple[Any, Any]]:
    if isinstance(thing, dict):
        return [(k, v) for k, v in thing.items() if isinstance(k, str)]
    if isinstance(thing, (list, tuple)):
        return list(enumerate(thing))
    if isinstance(thing, (type, types.ModuleType, types.FunctionType)):
        return []
    return list(getattr(thing, "__dict__", {}).items())


def _owner(module: Any, name: str) -> tuple[Any, Any]:
    """What holds the Tensor of that name, and by which key."""
    *path, last = name.split(".")
    owner = module
    for key in path:
        owner = _get(owner, key)
        if owner is _MISSING:
            raise ArgumentValueError(f"[functional_call] {name!r} leads nowhere: there is no {key!r}")
    if isinstance(owner, tuple) or (isinstance(owner, list) and _get(owner, last) is _MISSING):
        raise ArgumentValueError(f"[functional_call] {name!r} cannot be replaced in a {type(owner).__name__}")
    return owner, last


def _get(owner: Any, key: str) -> Any:
    if isinstance(owner, dict):
        return owner.get(key, _MISSING)
    if isinstance(owner, (list, tuple)):
        return owner[int(key)] if key.isdigit() and int(key) < len(owner) else _MISSING
    return getattr(owner, key, _MISSING)


def _set(owner: Any, key: str, value: Any) -> None:
    if isinstance(owner, dict):
        if value is _MISSING:
            owner.pop(key, None)
        else:
            owner[key] = value
    elif isinstance(owner, list):
        owner[int(key)] = value
    elif value is _MISSING:
        if hasattr(owner, key):
            delattr(owner, key)
    else:
        setattr(owner, key, value)
