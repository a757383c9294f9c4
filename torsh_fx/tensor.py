"""The Tensor: a handle on a storage cell, a place in the graph, and a gradient.

Nothing here computes.  ``apply`` records an op; reading (``item``, ``numpy``,
``print``, ``bool``) makes the executor run what is pending.  Methods named
after ops are attached by ``methods``.

See NOTE [storage] in ``storage`` for what a handle points to.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from . import executor
from .alone import check_lone_read, host_of
from .autocasting import operands_of
from .dtypes import DType, is_floating
from .grad_fn import GradFn
from .graph import Node, Slot, leaf
from .lru import LRU
from .meshes import on_automatic_axes
from .record import is_checked, record
from .rules import ArgumentTypeError, ArgumentValueError, AutogradError, ShapeMismatchError
from .rules.call import Aval
from .rules.context import config
from .rules.op import Row
from .state import LOCAL, here, no_grad, set_grad_enabled
from .storage import Cell, View, note_read, note_read_by_trace
from .traces import is_frozen, note_used, trace_start
from .trail import ELSEWHERE, Event, Trail, layout, note_placed, placed
from .views import root_of
from .writing import write

if TYPE_CHECKING:
    from ._methods import Methods  # generated: what ``methods`` attaches
else:
    Methods = object


new = object.__new__

# What a Tensor itself keeps among its attributes.
OWN = frozenset(("_at", "_storage", "_edge", "_slot", "_view", "_retains", "_stop"))

families: list[type[Tensor]] = []  # the subclasses there are, see NOTE [families] in ``subclasses``


class Tensor(Methods):
    """An n-dimensional array that records what is done to it.

    Make one with ``tensor``, ``zeros``, ``randn``...; see ``torsh_fx`` for the list.

    Example:
        >>> x = tensor([1.0, 2.0], requires_grad=True)
        >>> (x * x).sum().backward()
        >>> x.grad.tolist()
        [2.0, 4.0]
    """

    # Most tensors never differ from these, and a loop makes thousands.
    _at: Node  # the node of a tensor that shares its storage with nobody, else ELSEWHERE
    _storage: Cell | None = None  # see _cell
    _edge: Any = None  # the node that made it, the slot of a leaf, or None
    _slot: Slot | None = None
    _view: View | None = None
    _retains = False
    _stop = False  # detached: gradients of a replay stop here, too

    __array_priority__ = 1000

    def __init_subclass__(cls, **options: Any) -> None:
        from .subclasses import enroll

        super().__init_subclass__(**options)
        enroll(cls)

    def __init__(self, node: Node, edge: Any = None) -> None:
        if not isinstance(node, Node):
            if type(self) is Tensor:
                raise ArgumentTypeError("make Tensors with torsh_fx.tensor(data), not with Tensor(data)")
            from .subclasses import fill

            fill(self, node)
            return
        self._at = node
        self._edge = edge
        if node.trail is not None and (edge is not node if node.code & 1 else edge is not None):
            self._cell  # noqa: B018  NOTE [at]

    @staticmethod
    def _make_subclass(cls: type[Tensor], data: Tensor, require_grad: bool = False) -> Any:
        """A leaf of a subclass on the storage of ``data``; what its ``__new__`` calls, as in PyTorch."""
        from .subclasses import make_subclass

        return make_subclass(cls, data, require_grad)

    # -- what it is ------------------------------------------------------------

    @property
    def _node(self) -> Node:
        node = self._at
        if node is not ELSEWHERE:
            return node
        view = self._view
        if view is not None and view.version != view.base._version:
            self._derive(view)
        return self._storage.node  # type: ignore[union-attr]

    @property
    def _cell(self) -> Cell:
        """The storage, which others may share from now on.

        NOTE [at]: a fresh result is its node and nothing else, and ops find it by
        ``_at``.  Whoever shares it, writes it or moves it in the graph asks for the
        cell first, and from then on the cell is asked.
        """
        cell = self._storage
        if cell is None:
            cell = self._storage = Cell(self._at)
            self._at = ELSEWHERE
        return cell

    @property
    def _version(self) -> int:
        """How often the storage was written, by this tensor or another that shares it.

        Example:
            >>> x = zeros(2)
            >>> x[0].add_(1)._version, x._version
            (1, 1)
        """
        storage = root_of(self)._storage
        return 0 if storage is None else storage.version

    def _derive(self, view: View) -> None:
        """Show what the base holds now; the base was written since."""
        version = view.base._version
        with set_grad_enabled(view.grad):
            fresh = apply(view.row, view.base, **view.params)
        self._cell.node = fresh._node
        self._stop = self._stop and view.base._stop  # a write may have given a detached base a graph
        if fresh._edge is not None or self._edge is not self._slot:  # else a leaf by requires_grad_(), and still one
            self._edge = None if self._stop else fresh._edge
        view.version = version
        if self._retains and self._edge is not None:
            self.retain_grad()

    @property
    def _aval(self) -> Aval:
        node = self._at
        if node.trail is not None:
            return node.event.call.out  # type: ignore[no-any-return]
        return (node if node is not ELSEWHERE else self._storage.node).aval  # type: ignore[union-attr]

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents, a plain tuple.

        Example:
            >>> zeros(2, 3).shape
            (2, 3)
        """
        return self._aval.shape

    @property
    def dtype(self) -> DType:
        """NumPy dtype of the elements; ``bfloat16`` is JAX's."""
        return self._aval.dtype

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self._aval.shape)

    @property
    def device(self) -> Any:
        """The JAX device that holds the value, or the sharding over several.

        Of a pending value where it will be, of which on a mesh only the mesh may be known.
        """
        node = self._node
        value = node.value
        if value is None or isinstance(value, jax.core.Tracer):
            home = node.home
            if isinstance(home, Mesh):
                return layout(node) or home
            if home is not None and len(home) == 1:
                return next(iter(home))
            return config.jax_default_device or jax.devices()[0]
        devices = value.devices()
        return next(iter(devices)) if len(devices) == 1 else value.sharding

    # -- its place in the graph --------------------------------------------------

    @property
    def requires_grad(self) -> bool:
        """Is what is done to it recorded for differentiation?  Assigning is ``requires_grad_``."""
        edge = self._current_edge()
        if LOCAL.now.attempt is not None:
            LOCAL.now.attempt.ask(edge)
        return edge is not None

    @requires_grad.setter
    def requires_grad(self, mode: bool) -> None:
        self.requires_grad_(mode)

    def requires_grad_(self, mode: bool = True) -> Tensor:
        """Make it a leaf that collects gradients, or stop it from being one; returns it.

        A result that requires grad already stays as it is.

        Raises:
            AutogradError: the dtype is not floating, or ``False`` for a result.
            ArgumentTypeError: ``mode`` is no bool.

        Example:
            >>> zeros(2).requires_grad_()
            tensor([0., 0.], requires_grad=True)
        """
        if not isinstance(mode, (bool, np.bool_)):
            raise ArgumentTypeError(f"requires_grad must be True or False, got {type(mode).__name__}")
        if mode and not is_floating(self.dtype):
            raise AutogradError(f"only floating tensors can require a gradient, this one is {self.dtype}")
        if not self.is_leaf:
            if mode:
                return self
            raise AutogradError("requires_grad can only be switched off on a leaf; use detach() on a result")
        if mode and is_frozen(self._node):
            raise AutogradError(
                "this tensor was read inside jax.jit (or another trace), which holds its value as a constant: its "
                "gradient would be lost there; pass it to the function as an argument"
            )
        if mode and self._slot is None:
            self._slot = Slot(self._aval)
        if self._at.trail is not None:
            self._cell  # noqa: B018  NOTE [at]
        self._edge = self._slot if mode else None
        return self

    def _current_edge(self) -> Any:
        view = self._view
        if view is not None and view.version != view.base._version:
            self._derive(view)  # a view whose base moved on has a new edge
        return self._edge

    @property
    def is_leaf(self) -> bool:
        """Was it made by the user rather than by a recorded op?

        Example:
            >>> x = tensor([1.0], requires_grad=True)
            >>> x.is_leaf, (x * 2).is_leaf
            (True, False)
        """
        if LOCAL.now.attempt is not None:
            LOCAL.now.attempt.ask(self._edge)
        return self._edge is None or isinstance(self._edge, Slot)

    @property
    def grad_fn(self) -> GradFn | None:
        """The op that made it, with its diagnostic name; None for a leaf.

        Example:
            >>> tensor([1.0], requires_grad=True).exp().grad_fn
            <grad_fn exp>
        """
        edge = self._current_edge()
        if LOCAL.now.attempt is not None:
            LOCAL.now.attempt.ask(edge)
        return GradFn(edge) if isinstance(edge, Node) else None

    @property
    def grad(self) -> Tensor | None:
        """The gradient collected so far: a Tensor of this shape and dtype, or None.

        Assigning one sets it, None clears it.

        Raises:
            ArgumentTypeError: neither Tensor nor None, or another dtype.
            ShapeMismatchError: another shape.
            AutogradError: the tensor itself.
        """
        return None if self._slot is None else self._slot.grad

    @grad.setter
    def grad(self, value: Tensor | None) -> None:
        if value is not None:
            if not isinstance(value, Tensor):
                raise ArgumentTypeError(f"grad must be a Tensor or None, got {type(value).__name__}")
            if value is self:
                raise AutogradError("a tensor cannot be its own gradient")
            if value.shape != self.shape:
                raise ShapeMismatchError("grad must have the tensor's shape", expected=self.shape, got=value.shape)
            if value.dtype != self.dtype:
                raise ArgumentTypeError(f"grad must have the tensor's dtype {self.dtype}, got {value.dtype}")
        if self._slot is None:
            if value is None:
                return
            self._slot = Slot(self._aval)
        self._slot.grad = value

    def backward(
        self,
        gradient: Any = None,
        retain_graph: bool | None = None,
        create_graph: bool = False,
        inputs: Any = None,
    ) -> None:
        """Add the gradient of this tensor to ``.grad`` of every leaf it depends on.

        Args:
            gradient: the seed, of this tensor's shape and dtype; may be left out where
                there is one element, and is 1 then.
            retain_graph: keep the graph for another backward; by default if ``create_graph``.
            create_graph: make the gradients differentiable themselves.
            inputs: a Tensor or several; only their ``.grad`` is added to, and only what
                leads to them is walked.  A result among them retains its gradient.

        Raises:
            AutogradError: it or one of ``inputs`` does not require grad, it has several
                elements and no ``gradient``, the graph was freed, or an op has no derivative.
            ShapeMismatchError: ``gradient`` has another shape.
            ArgumentTypeError: ``gradient`` has another dtype, or ``inputs`` are no Tensors.
            ArgumentValueError: ``inputs`` is empty.

        Source: the VJPs of the rows that were recorded, in reverse.
        Example:
            >>> x = tensor([1.0, 2.0], requires_grad=True)
            >>> (x * x).backward(tensor([1.0, 10.0]))
            >>> x.grad.tolist()
            [2.0, 40.0]
        """
        from .backward import backward

        backward((self,), (gradient,), retain_graph, create_graph, inputs)

    def retain_grad(self) -> None:
        """Let ``.grad`` of this intermediate result be filled, too; of a leaf it is anyway.

        Raises:
            AutogradError: it does not require grad.

        Example:
            >>> y = tensor([1.0], requires_grad=True) * 2
            >>> y.retain_grad()
            >>> (y * y).sum().backward()
            >>> y.grad.tolist()
            [4.0]
        """
        if not self.requires_grad:
            raise AutogradError("retain_grad() needs a tensor that requires grad")
        if not self.is_leaf:
            from .backward import retain

            retain(self)

    def detach(self) -> Tensor:
        """The same storage, outside the graph: gradients stop here, JAX's too.

        Example:
            >>> tensor([1.0], requires_grad=True).detach().requires_grad
            False
        """
        out = new(self.__class__)
        view = self._view
        if view is None:
            out._at, out._storage = ELSEWHERE, self._cell
        else:  # a view of the detached base: what is written to it, the graph of the base does not see
            out._at, out._storage = ELSEWHERE, Cell(self._node)
            out._view = View(view.base.detach(), view.row, view.params, True)
        out._stop = self._cell.aliased = True
        return out

    def detach_(self) -> Tensor:
        """Leave the graph: become a leaf without history, and return it.

        Raises:
            AutogradError: it is a view.
        """
        if self._view is not None:
            raise AutogradError("detach_() on a view is not possible; use detach()")
        self._cell  # noqa: B018  NOTE [at]
        self._edge, self._stop = None, True
        return self

    @property
    def data(self) -> Tensor:
        """The same storage, outside the graph; assigning rebinds the storage, which no gradient sees.

        Raises:
            ArgumentTypeError: what is assigned is no Tensor, or of another dtype.
            ShapeMismatchError: what is assigned has another shape.
            AutogradError: this tensor cannot be written, see ``add_``.
        """
        return self.detach()

    @data.setter
    def data(self, value: Tensor) -> None:
        if not isinstance(value, Tensor):
            raise ArgumentTypeError(f"data must be a Tensor, got {type(value).__name__}")
        with no_grad():
            self._write(value, "data")

    # -- reading -------------------------------------------------------------------

    def jax(self) -> jax.Array:
        """The value as a JAX array (or tracer, inside a trace), computed now if it was pending.

        Example:
            >>> jnp.sum(tensor([1.0, 2.0]).jax()).item()
            3.0
        """
        value = executor.force(self._operand())
        if isinstance(value, jax.core.Tracer):
            if LOCAL.now.reading is not None:
                LOCAL.now.reading((self,))
            note_used((self._node,))
        else:
            self._node.exported = value
            note_read_by_trace((self,))
        return value  # type: ignore[no-any-return]

    def _operand(self) -> Node:
        """The node that ops read: of a detached tensor under a trace, a constant to JAX as well."""
        node = self._node
        if self._stop and node.traced:
            return Node(None, (), (), node.aval, value=jax.lax.stop_gradient(node.value))
        return node

    def numpy(self) -> np.ndarray[Any, Any]:
        """A read-only snapshot as a NumPy array; later writes do not show in it.

        Raises:
            AutogradError: it requires grad (call ``detach()`` first), or has no value
                yet inside ``jax.jit``, ``vmap`` or ``grad``.

        Example:
            >>> tensor([1, 2]).numpy()
            array([1, 2])
        """
        if self.requires_grad:
            raise AutogradError("numpy() would drop the gradient of a tensor that requires grad; use detach().numpy()")
        return self._host()

    def _host(self) -> np.ndarray[Any, Any]:
        node = self._node
        if placed and node.value is None:
            check_lone_read(node)
        value = executor.force(node)
        if isinstance(value, jax.core.Tracer):
            raise AutogradError(
                "a value was read inside jax.jit, vmap or grad, where it does not exist yet; "
                "return it from the function, or read it outside"
            )
        note_read(self)
        node.exported = value  # NumPy looks at the same memory
        out = host_of(value) if placed else np.asarray(value)
        out.flags.writeable = False
        return out

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        host = self.numpy()
        if dtype is not None and dtype != host.dtype:
            if copy is False:
                raise ArgumentValueError(f"{host.dtype} cannot become {np.dtype(dtype)} without a copy")
            return host.astype(dtype)
        return host.copy() if copy else host

    @property
    def __jax_array__(self) -> Any:
        from .protocols import for_jax

        return for_jax(self)

    def item(self) -> Any:
        """The one element as a Python number.

        Raises:
            ArgumentTypeError: it has more or fewer than one element.
            AutogradError: it has no value yet inside ``jax.jit``, ``vmap`` or ``grad``.

        Example:
            >>> tensor([2.5]).item()
            2.5
        """
        if self.numel() != 1:
            raise ArgumentTypeError(f"item() needs exactly one element, shape {list(self.shape)} has {self.numel()}")
        return self._host().reshape(()).item() if self.dtype.kind != "V" else float(self._host().reshape(()))

    def tolist(self) -> Any:
        """The values as nested Python lists, of a 0-d tensor a number; a traced one is an AutogradError."""
        return self._host().tolist()

    def __hash__(self) -> int:
        return id(self)

    def __repr__(self) -> str:
        from .printing import show

        return show(self)

    # -- writing -----------------------------------------------------------------

    def _write(self, source: Tensor, op: str) -> Tensor:
        """Rebind the storage to ``source``'s value; the one door of every in-place op."""
        return write(self, source, op)


# -- recording on Tensors --------------------------------------------------------


def take(trail: Trail, event: Event) -> Tensor:
    """Record the op of an event that is known; ``Trail.go`` in place."""
    node = new(Node)
    node.trail = trail
    node.code = code = event.code
    node.event = event
    node.value = None
    trail.nodes[code >> 1 :] = (node,)
    trail.event = event
    out = new(Tensor)
    out._at = node
    if code & 1:
        out._edge = node
    return out


def apply(row: Row, *operands: Tensor, **params: Any) -> Tensor:
    """Record ``row`` on tensors of matching dtypes; ``params`` may hold Tensors.

    Raises what the row's checks raise; a pending value is checked by its program.
    """
    recorder = LOCAL.now
    if recorder.autocast:
        operands = operands_of(row, operands, recorder.autocast)
    if families and (kind := _family(operands)) is not None:
        out = _apply(row, operands, params, None)
        out.__class__ = kind
        return out
    trail = recorder.trail
    key: list[Any] = [row, recorder.mode]
    for t in operands:
        at = t._at
        key.append(at.code if at.trail is trail else trail.code(t))
    floats: list[float] = []
    ints: list[int] = []
    usual = None not in key  # no tape, not eager, no operand that is traced or pending elsewhere
    if row.context:
        key += [read() for read in row.context.values()]
    for name in row.params if len(params) > 1 else params:  # their order decides where numbers are kept
        if name not in params:
            continue
        value = params[name]
        kind = value.__class__
        key.append(name)
        key.append(kind)
        if name not in row.runtime or value is None:
            key.append(value)
        elif kind is float:
            floats.append(value)
        elif kind is int:
            ints.append(value)
        elif kind is Tensor and not value._stop:
            code = trail.code_of(value._node, None)
            usual = usual and code is not None
            key.append(code)
        else:
            usual = False
    if not usual or not params.keys() <= row.params.keys():
        return _apply(row, operands, params, None)
    try:
        event = trail.event.after.get(tuple(key))
    except TypeError:  # an unhashable parameter, which the row will refuse or make a tuple
        return _apply(row, operands, params, None)
    if event is not None and row.checked and not is_checked(row, event.call, operands, params):
        return _apply(row, operands, params, None)  # which says what is wrong
    if event is None or recorder.trail is not trail:
        way = (trail.event, tuple(key))
        if (floats and ints) or row.checked or recorder.trail is not trail or trail.is_full():
            return _apply(row, operands, params, way)
        return _elsewhere(row, operands, params, way, (*floats, *ints))
    if floats:
        trail.floats[event.n_floats - len(floats) :] = floats
    if ints:
        trail.ints[event.n_ints - len(ints) :] = ints
    return take(trail, event)


def _family(operands: tuple[Tensor, ...]) -> type[Tensor] | None:
    """The subclass of the result, if an operand is of one: the first, unless a later one is of a subclass of that."""
    found = None
    for t in operands:
        kind = t.__class__
        if kind is not Tensor and (found is None or (kind is not found and issubclass(kind, found))):
            found = kind
    return found


# What is known of an op whatever came before it: its call, and which operands get gradients.
_anywhere: LRU[Any, Any] = LRU(8192)


def _elsewhere(row: Row, operands: tuple[Tensor, ...], params: dict[str, Any], way: Any, numbers: Any) -> Tensor:
    """``apply`` at a place where it is not known yet; perhaps it is at another."""
    trail, codes = LOCAL.now.trail, way[1][2 : 2 + len(operands)]
    sort = (*[(t._node.kind, t._edge is not None) for t in operands], row, way[1][1], *way[1][2 + len(operands) :])
    known = _anywhere.get(sort) if not placed else None
    if known is not None:
        call, mask = known
        return result(trail.extend(call, codes, numbers, mask, None, way))
    out = _apply(row, operands, params, way)
    node = out._at
    if node.trail is trail and way[0].after.get(way[1]) is node.event and len(node.event.numbers) == len(numbers):
        _anywhere[sort] = node.event.call, node.event.mask  # not the event, which keeps its whole path
    return out


def _apply(row: Row, operands: tuple[Tensor, ...], params: dict[str, Any], key: Any) -> Tensor:
    """``apply`` at a place where it is not known yet, or cannot be."""
    for name, value in params.items():
        if isinstance(value, Tensor):
            params[name] = value._operand()
    nodes = [t._operand() for t in operands]
    node = record(row, nodes, [t._edge for t in operands], params, key)
    for tape in here().tapes:
        tape.note(node, operands)
    if node.traced:
        note_read_by_trace(operands)
    return result(node)


def result(node: Node) -> Tensor:
    """A Tensor that shows ``node``, in its place in the graph."""
    return Tensor(node, node if node.differentiable else None)


def apply_view(row: Row, base: Tensor, **params: Any) -> Tensor:
    """Record a view of ``base``: the result shares its storage."""
    return as_view(apply(row, base, **params), row, base, params)


def as_view(out: Tensor, row: Row, base: Tensor, params: dict[str, Any]) -> Tensor:
    """Let ``out``, the result of ``row`` on ``base``, share its storage."""
    out._view = View(base, row, params, here().grad)
    out._cell  # noqa: B018  NOTE [at]
    return out


def from_array(value: Any) -> Tensor:
    """A Tensor for a JAX array or tracer, without a copy; a complex one is an ArgumentTypeError."""
    trace_start()
    dtype = value.dtype
    if jnp.issubdtype(dtype, jnp.complexfloating):
        raise ArgumentTypeError(f"complex numbers are not supported, got {dtype}")
    note_placed(value)
    if placed:
        value = on_automatic_axes(value)
    node = leaf(value)
    node.exported = value  # the caller may keep it
    return Tensor(node)
