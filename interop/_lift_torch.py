"""A PyTorch function or module as an op of recorded programs: PyTorch runs it on the host, forward and backward.

NOTE [one vector]: a program asks for the gradient of each operand by itself, and each
question would run PyTorch's backward once more.  So all floating operands travel as one
vector, and so do the results: one callback forward, one backward.  Those
that no derivative can be asked for travel as they are, and PyTorch is not told to differentiate by them.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

import jax
import jax.numpy as jnp
import numpy as np

from ..arithmetic import cast
from ..creation import as_tensor, zeros
from ..dtypes import DType, float32, float64, int64, is_floating, promote_types
from ..executor import force
from ..lift import is_tensor
from ..lru import LRU
from ..rules import ArgumentTypeError, AutogradError, TorshError, custom, register_jvp, register_vjp
from ..rules.context import Surroundings
from ..rules.kinds import shown
from ..rules.op import OPS
from ..shaping import cat, narrow, reshape
from ..state import here
from ..tensor import Tensor, apply
from ._matching import check_names, check_values
from ._torch_tensors import dtype_of, from_torch, of_host, to_host, torch, torch_dtype

Aval = tuple[tuple[int, ...], DType]
Vector = tuple[int, DType]


def lift_torch(fn: Any) -> TorchOp:
    """A PyTorch function or ``nn.Module`` as a differentiable op on Tensors.

    Args:
        fn: a module, which is copied as it is now (mode, hooks, frozen parameters), or a
            pure function of PyTorch tensors, run when a value is needed, not before.  Arguments,
            which are copies, and results may be pytrees.

    Returns:
        A callable on Tensors.  Of a module, its ``parameters`` and ``buffers`` are Tensors,
        inputs of the op: ``loss.backward()`` fills the parameters' ``.grad``.  The program
        waits for PyTorch, on the host, and backward runs its forward once more; results that
        require no grad in PyTorch do not here.

    Raises:
        ArgumentTypeError: ``fn`` is no function; later, it is given a PyTorch tensor, or returns
            something of a dtype there is no Tensor of.
        AutogradError: when it is called, ``fn`` uses a PyTorch tensor from outside that requires
            grad, or writes to a buffer, as a batch norm does in training: ``eval()`` it first.
        TorshError: what PyTorch raises, with its message: at the call if the shapes tell, else at the
            read; also if ``fn`` draws random numbers, which its backward would draw anew.

    Gradient: PyTorch's, of any order; forward mode by differentiating twice.  ``vmap`` runs it once
        per element.
    Source: ``torch.autograd.grad``, ``jax.pure_callback``.
    Example:
        >>> linear = lift_torch(torch.nn.Linear(3, 2))
        >>> linear(tensor([[1.0, 2.0, 3.0]])).sum().backward()
        >>> linear.parameters["weight"].grad.tolist()
        [[1.0, 2.0, 3.0], [1.0, 2.0, 3.0]]
    """
    if not callable(fn):
        raise ArgumentTypeError(f"[lift_torch] takes a PyTorch function or module, got {shown(fn)}")
    return TorchOp(fn)


_OPERAND = object()  # stands for an array among the arguments


class TorchOp:
    """What ``lift_torch`` returns: a callable on Tensors.

    Attributes:
        parameters: of a module, by name, Tensors with the same ``requires_grad``.
        buffers: of a module, by name, Tensors.
    """

    def __init__(self, fn: Any) -> None:
        self.parameters: dict[str, Tensor] = {}
        self.buffers: dict[str, Tensor] = {}
        self._fn = fn
        self._is_module = isinstance(fn, torch.nn.Module)
        self._name = type(fn).__name__ if self._is_module else getattr(fn, "__name__", type(fn).__name__)
        self._known: LRU[Any, _Signature] = LRU(256)
        self._state: dict[str, Tensor] = {}
        if self._is_module:
            self._fn = copy.deepcopy(fn)  # its mode and hooks, whatever becomes of them
            self.parameters = {name: from_torch(p) for name, p in fn.named_parameters()}
            self.buffers = {name: from_torch(b) for name, b in fn.named_buffers()}
            ours = dict(zip(map(id, fn.parameters()), self.parameters.values(), strict=True))
            ours |= dict(zip(map(id, fn.buffers()), self.buffers.values(), strict=True))
            self._state = {name: ours[id(t)] for name, t in fn.state_dict(keep_vars=True).items() if id(t) in ours}

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.apply(self.parameters, *args, **kwargs)

    def _reached(self) -> tuple[Any, ...]:
        """What a compiled step that names this op reaches by it."""
        return (self.parameters, self.buffers)

    def state_dict(self) -> dict[str, Tensor]:
        """Parameters and buffers under all the names that the module's own state dict has.

        Example:
            >>> linear = torch.nn.Linear(3, 2)
            >>> sorted(lift_torch(linear).state_dict())
            ['bias', 'weight']
        """
        return dict(self._state)

    def apply(self, parameters: Mapping[str, Any], *args: Any, **kwargs: Any) -> Any:
        """The same with other values for the parameters, for ``tx.grad`` and the like.

        Args:
            parameters: by name, Tensors or JAX arrays of the parameters' shapes and dtypes.
            args, kwargs: Tensors or arrays in any pytrees; whatever else is among them is
                given to PyTorch as it is and must be hashable.

        Raises:
            ArgumentTypeError: other names, shapes or dtypes than those of ``self.parameters``.
        """
        if not isinstance(parameters, Mapping):
            raise ArgumentTypeError(f"[{self}] takes the parameters as a dict by name, got {shown(parameters)}")
        problems = check_names(self.parameters, parameters, "what is given")
        own = {name: as_tensor(parameters[name]) for name in self.parameters if name in parameters}
        problems += check_values(self.parameters, own)
        if problems:
            raise ArgumentTypeError(f"[{self}] wrong parameters: {'; '.join(problems)}")
        leaves, tree = jax.tree.flatten((args, kwargs), is_leaf=lambda x: is_tensor(x) or isinstance(x, torch.Tensor))
        given = [self._operand(x) for x in leaves]
        tensors = [t for t in (*own.values(), *self.buffers.values(), *given) if t is not None]
        avals = tuple([(t.shape, t.dtype) for t in tensors])
        moving = tuple([k for k, t in enumerate(tensors) if is_floating(t.dtype) and _may_move(t)])
        static = tuple([None if g is not None else self._static(x) for x, g in zip(leaves, given, strict=True)])
        key = (tree, static, avals, moving)
        signature = self._known.get(key)
        if signature is None:
            plain = [x if g is None else _OPERAND for x, g in zip(leaves, given, strict=True)]
            called = functools.partial(self._called, tree, plain)
            signature = self._known[key] = _Signature(f"{self}", called, tensors, moving, len(own) + len(self.buffers))
        return signature(tensors)

    def _operand(self, x: Any) -> Tensor | None:
        if isinstance(x, torch.Tensor):
            raise ArgumentTypeError(f"[{self}] takes Tensors or arrays, got a PyTorch tensor: use from_torch")
        return as_tensor(x) if is_tensor(x) or isinstance(x, (jax.Array, np.ndarray)) else None

    def _static(self, x: Any) -> Any:
        try:
            hash(x)
        except TypeError:
            raise ArgumentTypeError(f"[{self}] {shown(x)} is neither tensor nor hashable") from None
        return type(x), x

    def _called(self, tree: Any, leaves: Sequence[Any], tensors: Sequence[Any]) -> Any:
        """PyTorch's result for all operands in order."""
        names = [*self.parameters, *self.buffers]
        arguments = iter(tensors[len(names) :])
        full = [next(arguments) if x is _OPERAND else x for x in leaves]
        args, kwargs = jax.tree.unflatten(tree, full)
        if not self._is_module:
            return self._fn(*args, **kwargs)
        return torch.func.functional_call(self._fn, dict(zip(names, tensors, strict=False)), args, kwargs)

    def __repr__(self) -> str:
        return f"lift_torch({self._name})"


def _may_move(t: Tensor) -> bool:
    """Can somebody ask for the derivative by ``t``, now or when a tape is replayed?"""
    return t.requires_grad or t._node.traced or bool(here().tapes)


class _Signature:
    """The op for operands of certain shapes: what PyTorch returns for them, and the callbacks."""

    def __init__(
        self, name: str, called: Callable[..., Any], tensors: Sequence[Tensor], moving: Sequence[int], n_own: int
    ) -> None:
        self.name, self.called = name, called
        self.own = slice(n_own)
        self.avals: list[Aval] = [(t.shape, t.dtype) for t in tensors]
        self.floats = list(moving)
        self.others = [k for k in range(len(tensors)) if k not in moving]
        self.wide = functools.reduce(promote_types, [self.avals[k][1] for k in self.floats] or [float32])
        leaves, self.tree = jax.tree.flatten(self._probed(tensors))
        self.leaves = [None if isinstance(x, torch.Tensor) else x for x in leaves]
        results = [x for x in leaves if isinstance(x, torch.Tensor)]
        self.outs: list[Aval] = [(tuple(x.shape), dtype_of(x.dtype, name)) for x in results]
        self.active = [x.requires_grad for x in results]
        n_in = sum(_size(self.avals[k]) for k in self.floats)
        self.parts = {
            floating: [k for k, (_, d) in enumerate(self.outs) if is_floating(d) == floating]
            for floating in (True, False)
        }
        self.hosts = {}
        for floating, at in self.parts.items():
            if at:
                dtype = functools.reduce(promote_types, [self.outs[k][1] for k in at]) if floating else int64
                size = sum(_size(self.outs[k]) for k in at)
                run = functools.partial(self._run, tuple(at), dtype)
                self.hosts[floating] = _Host(name, run, (n_in, self.wide), (size, dtype))

    def __call__(self, tensors: Sequence[Tensor]) -> Any:
        flat = [cast(reshape(tensors[k], -1), self.wide) for k in self.floats]
        vector = cat(flat) if flat else zeros(0, dtype=self.wide)
        others = [tensors[k] for k in self.others]
        found: list[Any] = [None] * len(self.outs)
        for floating, host in self.hosts.items():
            source = vector if floating else vector.detach()
            packed = apply(OPS["custom"], source, *others, name=self.name, fn=host.call, around=Surroundings.now())
            at = 0
            for k in self.parts[floating]:
                shape, dtype = self.outs[k]
                part = cast(reshape(narrow(packed, 0, at, _size(self.outs[k])), *shape), dtype)
                found[k] = part if self.active[k] else part.detach()
                at += _size(self.outs[k])
        results = iter(found)
        return jax.tree.unflatten(self.tree, [next(results) if x is None else x for x in self.leaves])

    def _run(self, at: tuple[int, ...], dtype: DType, vector: Any, *others: Any) -> Any:
        """In PyTorch: the results ``at`` as one vector."""
        all_wide = vector.dtype is torch.float64 and self.wide != float64

        def as_run(d: DType) -> DType:
            return float64 if all_wide and is_floating(d) else d

        split = iter(vector.split([_size(self.avals[k]) for k in self.floats]))
        rest = iter(others)
        tensors = []
        for k, (shape, d) in enumerate(self.avals):
            x = next(split).reshape(shape).to(torch_dtype(as_run(d))) if k in self.floats else next(rest)
            tensors.append(x if k < self.own.stop else x.clone())  # arguments may be written to
        results = [x for x in jax.tree.leaves(self.called(tensors)) if isinstance(x, torch.Tensor)]
        got = [(tuple(x.shape), dtype_of(x.dtype, self.name)) for x in results]
        if got != self.outs and (not all_wide or [shape for shape, _ in got] != [shape for shape, _ in self.outs]):
            raise TorshError(
                f"[{self.name}] results have other shapes or dtypes than for earlier operands of the same shapes: "
                f"{_listed(got)}, not {_listed(self.outs)}"
            )
        return torch.cat([results[k].reshape(-1).to(torch_dtype(as_run(dtype))) for k in at])

    # -- what it returns ---------------------------------------------------------------

    def _probed(self, tensors: Sequence[Tensor]) -> Any:
        """PyTorch's result: without values where it can do without, else on those that are there now."""
        empty = [torch.empty(shape, dtype=torch_dtype(d), device="meta") for shape, d in self.avals]
        try:
            return self._tried(empty)
        except AutogradError:
            raise
        except Exception as error:  # it looks at values, or holds some; or something is really wrong
            values = [force(t._operand()) for t in tensors]
            if any(isinstance(v, jax.core.Tracer) for v in values):
                self._refuse(error, " (inside a JAX trace it must do without values)")
        with torch.random.fork_rng(devices=[]):
            try:
                return self._tried([of_host(np.asarray(v)) for v in values])
            except TorshError:
                raise
            except Exception as error:
                self._refuse(error, "")

    def _refuse(self, error: Exception, where: str) -> NoReturn:
        raise TorshError(f"[{self.name}] PyTorch{where}: {type(error).__name__}: {error}") from error

    def _tried(self, inputs: Sequence[Any]) -> Any:
        for k in self.floats:
            inputs[k].requires_grad_()
        own = inputs[self.own]
        before = [x._version for x in own]
        with torch.enable_grad():
            out = self.called([*own, *(x.clone() for x in inputs[self.own.stop :])])
        if any(x._version != v for x, v in zip(own, before, strict=True)):
            raise AutogradError(
                f"[{self.name}] it writes to a buffer, which an op of a program must not: a module that keeps "
                "statistics, as a batch norm does in training, must be in eval() when it is lifted"
            )
        _refuse_captured(self.name, [x for x in jax.tree.leaves(out) if isinstance(x, torch.Tensor)], inputs)
        return out


def _refuse_captured(name: str, outs: Sequence[Any], inputs: Sequence[Any]) -> None:
    """A PyTorch tensor from outside that requires grad would lose its gradient here: say so."""
    own = {id(x) for x in inputs} | {id(x.grad_fn) for x in inputs}
    stack = [x if x.grad_fn is None else x.grad_fn for x in outs if x.requires_grad]
    seen: dict[int, Any] = {}  # alive, or an id would come back
    while stack:
        node = stack.pop()
        if id(node) in own or id(node) in seen:
            continue
        seen[id(node)] = node
        leaf = node if isinstance(node, torch.Tensor) else getattr(node, "variable", None)
        if leaf is None:
            if "Error" in node.name():  # in the place of a derivative that is not there
                raise AutogradError(f"[{name}] PyTorch can differentiate this once only: it is once_differentiable")
            stack += [following for following, _ in node.next_functions if following is not None]
        elif id(leaf) not in own:
            raise AutogradError(
                f"[{name}] the function uses a PyTorch tensor of shape {list(leaf.shape)} from outside that requires "
                "grad; its gradient would be lost: lift the module itself, pass the tensor as an argument, or detach it"
            )


class _Host:
    """A PyTorch function of a floating vector (and tensors without gradient) that gives a vector, as JAX sees it.

    ``source`` and ``target`` are length and dtype of the vectors.
    """

    def __init__(
        self, name: str, run: Callable[..., Any], source: tuple[int, DType], target: tuple[int, DType]
    ) -> None:
        self.name, self.run, self.source, self.target = name, run, source, target

        def call(*operands: Any) -> Any:
            dtype = target[1]
            if operands[0].dtype == float64 != source[1] and is_floating(dtype):
                dtype = float64  # a replay in float64: PyTorch computes in it, too
            with jax.enable_x64(True):
                on_host = functools.partial(self._on_host, [x.dtype for x in operands])
                shape = jax.eval_shape(_halves, jax.ShapeDtypeStruct((target[0],), dtype))
                found = jax.pure_callback(on_host, shape, *map(_halves, operands), vmap_method="sequential")
                return found if found.dtype == dtype else jax.lax.bitcast_convert_type(found, dtype)

        self.call = call
        if is_floating(target[1]):
            register_vjp(call, self._vjp)
            register_jvp(call, self._jvp)

    @functools.cached_property
    def pulled(self) -> _Host:
        """Of (cotangent, vector) as one vector: the gradient of the vector."""
        both = (self.target[0] + self.source[0], promote_types(self.target[1], self.source[1]))
        return _Host(self.name, self._pull, both, self.source)

    def _vjp(self, g: Any, vector: Any, *others: Any) -> tuple[Any, ...]:
        with jax.enable_x64(True):
            wide = self.pulled.source[1]
            both = jnp.concatenate([g.astype(wide), vector.astype(wide)])
            return (custom(f"{self.name}_vjp", self.pulled.call, both, *others), *[None] * len(others))

    @functools.cached_property
    def pushed(self) -> _Host:
        """Of (tangent, vector) as one vector: the tangent of the result."""
        return _Host(self.name, self._push, (2 * self.source[0], self.source[1]), self.target)

    def _jvp(self, operands: Any, tangents: Any) -> Any:
        with jax.enable_x64(True):
            both = jnp.concatenate([tangents[0], operands[0]])
            return custom(f"{self.name}_jvp", self.pushed.call, both, *operands[1:])

    def _pull(self, both: Any, *others: Any) -> Any:
        """In PyTorch: the gradient, itself in the graph if ``both`` is."""
        n, d_out = self.target
        with torch.enable_grad():
            x, y, further = self._at(both[n:], others)
            if not y.requires_grad:
                return torch.zeros_like(x)
            g = both[:n].to(torch_dtype(d_out))
            found = torch.autograd.grad(y, x, g, create_graph=further, allow_unused=True)[0]
        return torch.zeros_like(x) if found is None else found

    def _push(self, both: Any, *others: Any) -> Any:
        """In PyTorch: the tangent, as the derivative of the gradient, which is linear in ``g``."""
        n = self.source[0]
        with torch.enable_grad():
            x, y, further = self._at(both[n:], others)
            if not y.requires_grad:
                return torch.zeros_like(y)
            g = torch.zeros_like(y).requires_grad_()
            back = torch.autograd.grad(y, x, g, create_graph=True, allow_unused=True)[0]
            if back is None or not back.requires_grad:
                return torch.zeros_like(y)
            _refuse_captured(self.name, [back], [x, g])
            found = torch.autograd.grad(back, g, both[:n], create_graph=further, allow_unused=True)[0]
        return torch.zeros_like(y) if found is None else found

    def _at(self, vector: Any, others: Sequence[Any]) -> tuple[Any, Any, bool]:
        """An operand that requires grad, the result for it, and whether the operand was in a graph already."""
        further = vector.requires_grad
        x = vector.to(torch_dtype(self.source[1]))
        x = x if further else x.detach().requires_grad_()
        y = self.run(x, *others)
        _refuse_captured(self.name, [y], [x])
        return x, y, further

    def _on_host(self, dtypes: Sequence[DType], *operands: Any) -> np.ndarray[Any, Any]:
        given = [_whole(np.asarray(x), dtype) for x, dtype in zip(operands, dtypes, strict=True)]
        before = torch.random.get_rng_state()
        with torch.no_grad():
            out = self.run(*map(of_host, given))
        if not torch.equal(before, torch.random.get_rng_state()):
            torch.random.set_rng_state(before)
            raise TorshError(
                f"[{self.name}] it draws random numbers, and its backward would draw others: lift it "
                "again after eval(), or draw them outside and pass them"
            )
        host = to_host(out)
        return host.view(np.uint32).reshape(*host.shape, 2) if host.dtype.itemsize == 8 else host


# NOTE [halves]: a callback narrows 64-bit values, both ways, if ``jax_enable_x64`` is off when
# its program runs, which may be somebody else's; so they pass as two halves each.


def _halves(x: Any) -> Any:
    return jax.lax.bitcast_convert_type(x, jnp.uint32) if x.dtype.itemsize == 8 else x


def _whole(x: np.ndarray[Any, Any], dtype: DType) -> np.ndarray[Any, Any]:
    return np.ascontiguousarray(x).view(dtype).reshape(x.shape[:-1]) if dtype.itemsize == 8 else x


def _size(aval: Aval) -> int:
    return int(np.prod(aval[0], dtype=np.int64))


def _listed(avals: Sequence[Aval]) -> str:
    return ", ".join(f"{dtype}{list(shape)}" for shape, dtype in avals)
