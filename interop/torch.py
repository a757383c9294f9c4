"""PyTorch beside torsh_fx: tensors and state dicts both ways, functions of each inside the other.

- ``from_torch``, ``to_torch``: values, with ``requires_grad``.
- ``as_torch``: a torsh_fx or JAX function in a PyTorch model.
- ``lift_torch``: a PyTorch function or module in a torsh_fx program.
- ``state_dict_from_torch``, ``state_dict_to_torch``, ``load_state_dict``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax

from ..creation import as_tensor
from ..rules import ArgumentTypeError, TorshError
from ..rules.kinds import shown
from ..tensor import Tensor
from ._as_torch import as_torch
from ._lift_torch import TorchOp, lift_torch
from ._matching import check_names, check_tensors, check_values, refuse, write_all
from ._torch_tensors import from_torch, to_torch, torch

__all__ = [
    "TorchOp",
    "as_torch",
    "from_torch",
    "lift_torch",
    "load_state_dict",
    "state_dict_from_torch",
    "state_dict_to_torch",
    "to_torch",
]


def state_dict_from_torch(state: Mapping[str, Any]) -> dict[str, Tensor]:
    """PyTorch's state dict as Tensors by name, copied; what is one tensor there under two names is one here.

    Args:
        state: what ``module.state_dict()`` gives, or ``dict(module.named_parameters())``,
            whose parameters require grad here, too.

    Raises:
        ArgumentTypeError: no such dict, or an entry that cannot become a Tensor; it names all of them.
        AutogradError: an entry has a history.

    Example:
        >>> state_dict_from_torch(torch.nn.Linear(3, 2).state_dict())["bias"].shape
        (2,)
    """
    if not isinstance(state, Mapping):
        raise ArgumentTypeError(f"[state_dict_from_torch] takes a dict of PyTorch tensors, got {shown(state)}")
    return _each("state_dict_from_torch", state, from_torch, _memory)


def state_dict_to_torch(tensors: Mapping[str, Any]) -> dict[str, Any]:
    """Tensors by name as PyTorch's state dict, copied, for ``module.load_state_dict``.

    Args:
        tensors: Tensors, leaves or not, or JAX arrays.

    Returns:
        PyTorch tensors that do not require grad, as in ``module.state_dict()``.

    Raises:
        ArgumentTypeError: no such dict; it names all entries that are neither.

    Example:
        >>> state_dict_to_torch({"bias": tensor([1.0, 2.0])})
        {'bias': tensor([1., 2.])}
    """
    if not isinstance(tensors, Mapping):
        raise ArgumentTypeError(f"[state_dict_to_torch] takes a dict of Tensors, got {shown(tensors)}")
    return _each("state_dict_to_torch", tensors, lambda t: to_torch(t.detach() if isinstance(t, Tensor) else t), id)


def _each(
    op: str, named: Mapping[str, Any], convert: Callable[[Any], Any], same: Callable[[Any], Any]
) -> dict[str, Any]:
    out: dict[str, Any] = {}
    known: dict[Any, Any] = {}
    problems = []
    for name, value in named.items():
        try:
            if not isinstance(name, str):
                raise ArgumentTypeError("a name must be a string")
            key = same(value)
            if key not in known:
                known[key] = convert(value)
            out[name] = known[key]
        except TorshError as error:
            problems.append((name, error))
    if problems:
        lines = "\n  ".join(f"{name!r}: {error}" for name, error in problems)
        raise type(problems[0][1])(f"[{op}] some entries cannot be taken over:\n  {lines}")
    return out


def _memory(t: Any) -> Any:
    """Tells tensors that are one: a state dict makes each of its entries anew."""
    if isinstance(t, torch.Tensor) and t.layout == torch.strided and t.numel():
        return t.device, t.data_ptr(), t.shape, t.stride(), t.dtype
    return id(t)


def _value(t: Any) -> Tensor:
    if isinstance(t, (Tensor, jax.Array)):
        return as_tensor(t).detach()
    return from_torch(t.detach() if isinstance(t, torch.Tensor) else t)


def load_state_dict(tensors: Mapping[str, Tensor], state: Mapping[str, Any]) -> None:
    """Write the values of a state dict, PyTorch's or ours, into Tensors in place; all or nothing.

    Args:
        tensors: Tensors by name, for example ``lift_torch(module).parameters``.
        state: PyTorch tensors, Tensors or JAX arrays of the same names, shapes and dtypes.

    Raises:
        ArgumentTypeError: no dict of Tensors, or an entry that is no tensor.
        ArgumentValueError: names are missing or unexpected, shapes or dtypes differ: one error that
            lists all; nothing was changed.

    Example:
        >>> own = {"bias": zeros(2, requires_grad=True)}
        >>> load_state_dict(own, {"bias": torch.ones(2)})
        >>> own["bias"].tolist()
        [1.0, 1.0]
    """
    own = check_tensors("load_state_dict", tensors)
    if not isinstance(state, Mapping):
        raise ArgumentTypeError(f"[load_state_dict] takes a dict of tensors, got {shown(state)}")
    given = _each("load_state_dict", {name: state[name] for name in own if name in state}, _value, id)
    problems = check_names(own, state, "the state dict") + check_values(own, given)
    refuse("load_state_dict", problems)
    write_all((own[name], value) for name, value in given.items())
