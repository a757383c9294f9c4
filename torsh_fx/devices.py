"""Names of devices, and the move of a Tensor from one to another.

NOTE [moves]: a program runs on one device (or one mesh), so a move is no part of any:
it is an op of its own, computed as it is called, and so is its gradient's way back.
Inside ``jax.jit`` the whole program runs where its arguments lie, and a move is nothing.
"""

from __future__ import annotations

from typing import Any

import jax

from .dtypes import is_floating
from .gated import Copied
from .graph import NO_EDGES, Node
from .record import finish
from .rules import ArgumentTypeError, ArgumentValueError, AutogradError
from .rules.call import Aval
from .rules.moving import move
from .state import here
from .storage import note_read_by_trace
from .tensor import Tensor, result
from .traces import trace_start
from .trail import note_placed

_BACKENDS = {"cuda": "gpu"}  # what JAX calls them


def as_device(device: Any) -> Any:
    """A JAX device from one, or from a name such as "cpu", "cuda", "tpu:0".

    Numbers count this process's own devices, as in PyTorch.

    Raises:
        ArgumentTypeError: neither a device nor a name.
        ArgumentValueError: there is no such device; the message lists those that are.

    Example:
        >>> as_device("cpu").platform
        'cpu'
    """
    if device is None or isinstance(device, (jax.Device, jax.sharding.Sharding)):
        return device
    if not isinstance(device, str):
        raise ArgumentTypeError(f"a device is a JAX device or a name, got {type(device).__name__}")
    kind, colon, number = device.partition(":")
    try:
        if not kind or (colon and not number.isdecimal()):
            raise ValueError("a name is a platform, or platform:number")
        return jax.local_devices(backend=_BACKENDS.get(kind, kind))[int(number or 0)]
    except (RuntimeError, IndexError, ValueError) as error:
        raise ArgumentValueError(f"there is no device {device!r}; there are {', '.join(available())}") from error


def available() -> list[str]:
    """The names of all devices of this process."""
    found = dict.fromkeys(jax.local_devices())
    for backend in ("cpu", "gpu", "tpu"):
        try:
            found.update(dict.fromkeys(jax.local_devices(backend=backend)))
        except RuntimeError:  # JAX was told to leave it alone, or there is none
            continue
    numbers: dict[str, int] = {}
    names = []
    for d in found:
        kind = "cuda" if d.platform == "gpu" else d.platform
        names.append(f"{kind}:{numbers.get(kind, 0)}")
        numbers[kind] = numbers.get(kind, 0) + 1
    return names


def names_device(text: str) -> bool:
    """Does a text mean a device rather than a dtype?"""
    return text.partition(":")[0] in ("cpu", "cuda", "gpu", "tpu", "rocm")


class Move(Copied):
    """The call of a node that copies a value to another device or sharding; its gradient goes back."""

    def __init__(self, aval: Aval, source: Any, target: Any) -> None:
        super().__init__(aval, f"to(device={shown_place(target)})")
        self.source, self.target = source, target
        self.pullbacks: dict[Any, Any] = {}

    def forward(self, *args: Any) -> Any:
        return move(args[0], self.target)

    def cotangent(self, i: int, g: Any, env: dict[str, Any]) -> Any:
        return g if self.source is None else move(g, self.source)


def shown_place(place: Any) -> str:
    """A device or sharding in words."""
    if isinstance(place, jax.Device):
        return f"{place.platform}:{place.id}"
    return f"{dict(place.mesh.shape)}, {place.spec}" if isinstance(place, jax.sharding.NamedSharding) else str(place)


def moved(x: Tensor, target: Any) -> Tensor:
    """A copy of x on ``target``, a device or sharding, in its graph; see NOTE [moves]."""
    recorder = here()
    if recorder.capture is not None:
        raise AutogradError(
            f"[to] a compiled step runs on one device, and cannot move a value to {shown_place(target)}: move it before"
        )
    if recorder.attempt is not None:
        recorder.attempt.give_up()
    trace_start()
    edge = x._current_edge()
    source = x._operand()
    active = edge is not None and recorder.grad and is_floating(x.dtype)
    if source.value is None:
        from .executor import force

        force(source)
    came = None if source.traced else source.value.sharding
    node = Node(Move(x._aval, came, target), (source,), (), x._aval, (edge,) if active else NO_EDGES)
    for tape in recorder.tapes:
        tape.note(node, (x,))
    finish(node)
    if node.traced:
        note_read_by_trace((x,))
    note_placed(node.value)
    out = result(node)
    out.__class__ = x.__class__
    return out
