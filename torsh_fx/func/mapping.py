"""``vmap`` as ``torch.func`` has it, over ``torsh_fx.vmap``."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax

from .. import transforms
from ..lift import is_tensor
from ..random import Draws
from ..rules import ArgumentTypeError, ArgumentValueError, OutOfRangeError, TorshError
from ..rules.kinds import shown
from ..shaping import cat, narrow, permute
from ..state import here
from ..tensor import Tensor
from .derivatives import check_chunk_size

Fn = Callable[..., Any]


def vmap(
    func: Fn, in_dims: Any = 0, out_dims: Any = 0, randomness: str = "error", *, chunk_size: int | None = None
) -> Fn:
    """``func`` over an axis of its arguments, as if it were called for each element and the results were stacked.

    Args:
        func: takes Tensors in any pytrees, returns Tensors in any pytree.
        in_dims: the mapped axis of each positional argument, None for one that is the same
            for all; a number for all, or a tuple of numbers or of structures of them.
            Keyword arguments are not mapped.
        out_dims: where the mapped axis is in the results, likewise; None for a result that
            is the same for all.
        randomness: what a random draw in ``func`` is: an "error", the "same" for all
            elements, or "different" for each.
        chunk_size: how many elements to compute at a time; by default all.

    Returns:
        A function of ``func``'s arguments with the mapped axis in them and in its results.

    Raises:
        ArgumentTypeError: something that is no Tensor is mapped, or is a result.
        ArgumentValueError: nothing is mapped, the axes have different extents, in_dims or
            out_dims do not fit the structure, a result that differs has the out_dim None,
            or randomness or chunk_size are impossible.
        OutOfRangeError: there is no such axis.
        AutogradError: a draw is refused, or as ``torsh_fx.vmap``.

    Gradient: ``backward()`` goes through the result, as often as one likes.
    Source: ``torsh_fx.vmap``.
    Example:
        >>> dots = func.vmap(lambda x, y: (x * y).sum(), (0, None))
        >>> dots(tensor([[1.0, 2.0], [3.0, 4.0]]), tensor([1.0, 10.0])).tolist()
        [21.0, 43.0]
    """
    if randomness not in ("error", "same", "different"):
        raise ArgumentValueError(f"[vmap] randomness is 'error', 'same' or 'different', got {randomness!r}")
    check_chunk_size("vmap", chunk_size)

    @functools.wraps(func)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        mapping = _Mapping(func, args, kwargs, in_dims, out_dims, randomness)
        size = chunk_size or mapping.extent
        if size >= mapping.extent:
            return mapping.result([mapping.part(0, mapping.extent)])
        starts = range(0, mapping.extent, size)
        return mapping.result([mapping.part(at, min(size, mapping.extent - at)) for at in starts])

    return wrapped


class _Mapping:
    """One call of a mapped function."""

    def __init__(
        self, func: Fn, args: tuple[Any, ...], kwargs: dict[str, Any], in_dims: Any, out_dims: Any, randomness: str
    ) -> None:
        self.func, self.out_dims, self.randomness = func, out_dims, randomness
        self.flat, self.tree = jax.tree.flatten((args, kwargs), is_leaf=is_tensor)
        n = len(jax.tree.leaves(kwargs, is_leaf=is_tensor))
        self.dims = [*_in_dims(in_dims, args), *[None] * n]
        extents = [t.shape[d] for t, d in zip(self.flat, self.dims, strict=True) if d is not None]
        if not extents:
            raise ArgumentValueError("[vmap] nothing is mapped: at least one in_dim must be a number")
        if len(set(extents)) > 1:
            raise ArgumentValueError(f"[vmap] mapped axes must have one extent, got {extents}")
        self.extent: int = extents[0]
        self.places = [k for k, x in enumerate(self.flat) if is_tensor(x)]
        self.structure: Any = None  # of what func returns
        self.ends: list[int | None] = []  # out_dims of its leaves
        self.others: dict[int, Any] = {}  # results that are no Tensors
        self.draws: Draws | None = None

    def part(self, start: int, length: int) -> dict[str, list[Tensor]]:
        """The results for some elements; those that are mapped have the axis first."""
        if self.draws is not None:
            self.draws.rewind()
        name = f"torsh_fx.func.vmap {len(here().draws)}" if self.randomness == "different" else None
        self.draws = Draws("vmap", self.randomness, (name, self.extent, start))
        whole = length == self.extent
        given = [
            x if d is None or whole else narrow(x, d, start, length)
            for x, d in [(self.flat[k], self.dims[k]) for k in self.places]
        ]
        axes = [self.dims[k] for k in self.places]
        try:
            with self.draws:
                out_axes = {"mapped": 0, "same": None}
                return transforms.vmap(self._one, (axes,), out_axes, axis_name=name)(given)  # type: ignore[no-any-return]
        except ValueError as error:
            if "out_axes" in str(error) and not isinstance(error, TorshError):
                raise ArgumentValueError(
                    "[vmap] a result differs between elements, its out_dim cannot be None"
                ) from error
            raise

    def _one(self, tensors: Sequence[Tensor]) -> dict[str, list[Tensor]]:
        flat = list(self.flat)
        for k, t in zip(self.places, tensors, strict=True):
            flat[k] = t
        args, kwargs = jax.tree.unflatten(self.tree, flat)
        out = self.func(*args, **kwargs)
        leaves, self.structure = jax.tree.flatten(out, is_leaf=is_tensor)
        self.ends = _prefixed("out_dims", self.out_dims, out)
        found: dict[str, list[Tensor]] = {"mapped": [], "same": []}
        for k, (x, end) in enumerate(zip(leaves, self.ends, strict=True)):
            if is_tensor(x):
                found["same" if end is None else "mapped"].append(x)
            elif end is None:
                self.others[k] = x
            else:
                raise ArgumentTypeError(f"[vmap] func must return Tensors, got {shown(x)}; set its out_dim to None")
        return found

    def result(self, parts: list[dict[str, list[Tensor]]]) -> Any:
        """The parts put together, each axis in its place."""
        mapped = iter([cat(ts) if len(ts) > 1 else ts[0] for ts in zip(*[p["mapped"] for p in parts], strict=True)])
        same = iter(parts[0]["same"])
        leaves = []
        for k, end in enumerate(self.ends):
            if k in self.others:
                leaves.append(self.others[k])
            else:
                leaves.append(next(same) if end is None else _moved(next(mapped), end))
        return jax.tree.unflatten(self.structure, leaves)


def _in_dims(in_dims: Any, args: tuple[Any, ...]) -> list[int | None]:
    """The mapped axis of each leaf of the arguments, not negative."""
    if not args:
        raise ArgumentValueError("[vmap] there are no positional arguments to map over")
    if isinstance(in_dims, bool) or not isinstance(in_dims, (int, tuple)):
        raise ArgumentValueError(f"[vmap] in_dims must be an integer or a tuple, got {shown(in_dims)}")
    found: list[int | None] = []
    for x, d in zip(jax.tree.leaves(args, is_leaf=is_tensor), _prefixed("in_dims", in_dims, args), strict=True):
        if d is not None and not is_tensor(x):
            raise ArgumentTypeError(f"[vmap] only Tensors can be mapped, got {shown(x)}; set its in_dim to None")
        if d is not None and not -x.ndim <= d < x.ndim:
            raise OutOfRangeError(f"[vmap] there is no axis {d} to map over in shape {list(x.shape)}")
        found.append(None if d is None else d % x.ndim)
    return found


def _prefixed(what: str, dims: Any, tree: Any) -> list[int | None]:
    """Axes that are given for a structure or the upper part of one, per leaf."""
    if dims is None or (isinstance(dims, int) and not isinstance(dims, bool)):
        return [dims] * len(jax.tree.leaves(tree, is_leaf=is_tensor))
    if is_tensor(tree) and isinstance(dims, tuple) and len(dims) == 1:
        return _prefixed(what, dims[0], tree)
    if isinstance(dims, (tuple, list)) and isinstance(tree, (tuple, list)) and len(dims) == len(tree):
        return [d for part, below in zip(dims, tree, strict=True) for d in _prefixed(what, part, below)]
    if isinstance(dims, dict) and isinstance(tree, dict) and dims.keys() == tree.keys():
        return [d for key in sorted(tree) for d in _prefixed(what, dims[key], tree[key])]
    raise ArgumentValueError(f"[vmap] {what} {dims!r} do not fit the structure of {shown(tree)}")


def _moved(t: Tensor, end: int) -> Tensor:
    """``t`` with its first axis at ``end``."""
    if not -t.ndim <= end < t.ndim:
        raise OutOfRangeError(f"[vmap] there is no place {end} for the mapped axis in shape {list(t.shape)}")
    axes = list(range(1, t.ndim))
    axes.insert(end % t.ndim, 0)
    return permute(t, axes)
