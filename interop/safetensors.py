"""Checkpoints in safetensors files: parameters, optimiser states, any tree of arrays and numbers.

- ``save`` (also ``save_file``): write a tree, whole or not at all.
- ``load_file``: what is in a file, as Tensors by name.
- ``load``: a tree like another one.
- ``load_into``: into Tensors in place, all or none.
- ``metadata``: the text beside the arrays.

The name of an array is its way through the tree, joined by dots: ``model.0.weight``.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ..dlpack import copied
from ..dtypes import ALL, bfloat16
from ..files import write_whole
from ..graph import leaf
from ..lift import is_tensor
from ..rules import ArgumentTypeError, ArgumentValueError
from ..rules.kinds import shown
from ..tensor import Tensor, from_array
from ._extras import needed
from ._matching import check_names, check_values, refuse, write_all

safetensors: Any = needed("safetensors", "safetensors")
_numpy: Any = needed("safetensors.numpy", "safetensors")

__all__ = ["load", "load_file", "load_into", "metadata", "save", "save_file"]

_DTYPES = {
    **{f"F{n}": np.dtype(f"float{n}") for n in (16, 32, 64)},
    **{f"I{n}": np.dtype(f"int{n}") for n in (8, 16, 32, 64)},
    **{f"U{n}": np.dtype(f"uint{n}") for n in (8, 16, 32, 64)},
    "BF16": bfloat16,
    "BOOL": np.dtype(bool),
}


def save(tree: Any, path: Any, metadata: Mapping[str, str] | None = None) -> None:
    """Write a tree of Tensors, arrays and numbers to a safetensors file.

    The file that was there is replaced only when the new one is complete and on the disk.

    Args:
        tree: dicts, lists, tuples and other pytrees of Tensors, NumPy and JAX arrays, ints,
            floats and bools.  Of Tensors the values are kept, not gradients.
        path: of the file.
        metadata: text by name, for people.

    Raises:
        ArgumentTypeError: the tree holds something else, or an array of a dtype that the format has
            not, such as a complex one or a JAX key (save ``jax.random.key_data``); all are named.
        ArgumentValueError: two leaves have one name, or one is ``__metadata__``; an int has more than
            64 bits; an array is spread over several processes.
        OSError: Python's own, if the file cannot be written.

    Source: the safetensors format; every value is kept bit for bit.
    Example:
        >>> import tempfile
        >>> folder = tempfile.TemporaryDirectory()
        >>> path = folder.name + "/state.safetensors"
        >>> save({"model": {"w": tensor([1.0, 2.0])}, "step": 3}, path)
        >>> load_file(path)["model.w"]
        tensor([1., 2.])
    """
    target = _path("save", path)
    texts = {} if metadata is None else metadata
    if not isinstance(texts, Mapping) or not all(isinstance(t, str) for kv in texts.items() for t in kv):
        raise ArgumentTypeError(f"[save] metadata must be a dict from text to text, got {shown(metadata)}")
    arrays: dict[str, np.ndarray[Any, Any]] = {}
    problems: list[str] = []
    for name, x in _named("save", tree).leaves.items():
        try:
            arrays[name] = _host(x)
        except ArgumentTypeError as error:
            problems.append(f"{name!r}: {error}")
    if problems:
        raise ArgumentTypeError("[save] some leaves cannot be written:\n  " + "\n  ".join(problems))
    write_whole(target, _numpy.save(arrays, dict(texts) or None))


save_file = save


def metadata(path: Any) -> dict[str, str]:
    """The text that was saved beside the arrays.

    Raises:
        ArgumentValueError: the file is no whole safetensors file.
        OSError: Python's own, if it cannot be read.

    Example:
        >>> import tempfile
        >>> folder = tempfile.TemporaryDirectory()
        >>> save({}, folder.name + "/empty", metadata={"run": "7"})
        >>> metadata(folder.name + "/empty")
        {'run': '7'}
    """
    target = _path("metadata", path)
    with open(target, "rb"):  # Python's error for what is no file is the clearer one
        pass
    try:
        with safetensors.safe_open(target, framework="numpy") as file:
            return file.metadata() or {}
    except safetensors.SafetensorError as error:
        raise _broken("metadata", target, error) from error


def load_file(path: Any) -> dict[str, Tensor]:
    """What a safetensors file holds, as Tensors by name.

    Raises:
        ArgumentTypeError: an array has a dtype there is no Tensor of, such as uint32; all are named.
        ArgumentValueError: the file is truncated or no safetensors file.
        OSError: Python's own, if it cannot be read.

    Example: see ``save``.
    """
    arrays = _read("load_file", path)
    wrong = sorted(f"{name!r} is {a.dtype}" for name, a in arrays.items() if a.dtype not in ALL)
    if wrong:
        raise ArgumentTypeError(
            f"[load_file] there are no Tensors of these dtypes, load(path, like=...) gives arrays: {', '.join(wrong)}"
        )
    return {name: Tensor(leaf(copied("load_file", a))) for name, a in arrays.items()}


def load(path: Any, like: Any) -> Any:
    """A tree like ``like``, with the values of a file.

    Args:
        path: of the file.
        like: a tree of the structure that was saved.  It says what each leaf becomes, Tensor, NumPy
            array, JAX array or number, and on which devices; Tensors require grad as there.

    Raises:
        ArgumentTypeError: ``like`` holds something that cannot be saved.
        ArgumentValueError: the file is truncated or no safetensors file; or its names, shapes or
            dtypes are not those of ``like``: one error lists all.
        OSError: Python's own, if it cannot be read.

    Example:
        >>> import tempfile
        >>> folder = tempfile.TemporaryDirectory()
        >>> save({"w": ones(2), "step": 3}, folder.name + "/state")
        >>> load(folder.name + "/state", like={"w": zeros(2), "step": 0})
        {'step': 3, 'w': tensor([1., 1.])}
    """
    wanted = _named("load", like)
    found = _read("load", path)
    problems = check_names(wanted.leaves, found, "the file")
    kinds: dict[str, Any] = {}
    for name, x in wanted.leaves.items():
        try:
            kinds[name] = _aval(x)
        except ArgumentTypeError as error:
            raise ArgumentTypeError(f"[load] {name!r}: {error}") from error
    problems += check_values(kinds, {name: a for name, a in found.items() if name in kinds})
    refuse("load", problems)
    made = {id(x): _as(x, found[name]) for name, x in wanted.leaves.items() if is_tensor(x)}  # one stays one
    values = [made[id(x)] if is_tensor(x) else _as(x, found[name]) for name, x in wanted.leaves.items()]
    return jax.tree.unflatten(wanted.tree, values)


def load_into(tensors: Any, path: Any) -> None:
    """Write the values of a file into Tensors in place; all are checked before one is written.

    Args:
        tensors: a dict of Tensors by name, or another tree of Tensors.
        path: of the file.

    Raises:
        ArgumentTypeError: the tree holds something else than Tensors.
        ArgumentValueError: the file is truncated or no safetensors file; or its names, shapes or
            dtypes are not those of the Tensors: one error lists all, and nothing was changed.
        AutogradError: a Tensor cannot be written; nothing was changed.
        OSError: Python's own, if it cannot be read.

    Example:
        >>> import tempfile
        >>> folder = tempfile.TemporaryDirectory()
        >>> save({"w": ones(2)}, folder.name + "/state")
        >>> w = zeros(2, requires_grad=True)
        >>> load_into({"w": w}, folder.name + "/state")
        >>> w
        tensor([1., 1.], requires_grad=True)
    """
    own = _named("load_into", tensors).leaves
    wrong = [f"{name!r} is {shown(x)}" for name, x in own.items() if not is_tensor(x)]
    if wrong:
        raise ArgumentTypeError(f"[load_into] only Tensors can be written in place: {', '.join(wrong)}")
    found = _read("load_into", path)
    problems = check_names(own, found, "the file")
    given = {name: a for name, a in found.items() if name in own}
    refuse("load_into", problems + check_values(own, given))
    write_all([(own[name], Tensor(leaf(copied("load_into", a)))) for name, a in given.items()])


# -- trees -----------------------------------------------------------------------------


class _Named(NamedTuple):
    leaves: dict[str, Any]
    tree: Any


def _named(op: str, tree: Any) -> _Named:
    """The leaves of a tree by name."""
    try:
        found, structure = jax.tree_util.tree_flatten_with_path(tree, is_leaf=is_tensor)
    except (ValueError, TypeError) as error:  # such as keys that have no order
        raise ArgumentTypeError(f"[{op}] JAX cannot take this tree apart: {error}") from error
    leaves: dict[str, Any] = {}
    for path, x in found:
        name = jax.tree_util.keystr(path, simple=True, separator=".")
        if not name:
            raise ArgumentTypeError(f"[{op}] needs a tree whose leaves have names, such as a dict, got {shown(tree)}")
        if name in leaves:
            raise ArgumentValueError(f"[{op}] two leaves have the name {name!r}")
        if name == "__metadata__":
            raise ArgumentValueError(f"[{op}] a leaf cannot be named {name!r}, where the format keeps its texts")
        leaves[name] = x
    return _Named(leaves, structure)


_NUMBERS = {bool: np.dtype(bool), int: np.dtype("int64"), float: np.dtype("float64")}


def _aval(x: Any) -> Any:
    """Shape and dtype of a leaf as it is saved."""
    if type(x) in _NUMBERS:
        return jax.ShapeDtypeStruct((), _NUMBERS[type(x)])
    if not isinstance(x, (Tensor, jax.Array, np.ndarray, np.generic)):
        raise ArgumentTypeError(f"{shown(x)} is neither array nor number")
    if isinstance(x, jax.Array) and jnp.issubdtype(x.dtype, jax.dtypes.prng_key):
        raise ArgumentTypeError("a JAX key is no array of numbers: use jax.random.key_data and wrap_key_data")
    if x.dtype.newbyteorder("=") not in _DTYPES.values():
        raise ArgumentTypeError(f"arrays of {x.dtype} cannot be saved; known are {[str(d) for d in _DTYPES.values()]}")
    return x if is_tensor(x) else jax.ShapeDtypeStruct(x.shape, x.dtype.newbyteorder("="))


def _host(x: Any) -> np.ndarray[Any, Any]:
    """A leaf as the file shall hold it."""
    _aval(x)
    if type(x) is int and not -(2**63) <= x < 2**63:
        raise ArgumentValueError(f"[save] {x} has more than 64 bits")
    value = x.detach().jax() if isinstance(x, Tensor) else x
    if isinstance(value, jax.core.Tracer):
        return x.detach().numpy() if isinstance(x, Tensor) else np.asarray(x)  # which say what is wrong
    if isinstance(value, jax.Array) and not value.is_fully_addressable:
        raise ArgumentValueError(f"[save] an array of shape {list(value.shape)} is spread over several processes")
    host = np.asarray(value, dtype=_NUMBERS.get(type(x)), order="C")
    return host.astype(host.dtype.newbyteorder("="), copy=False)


def _as(like: Any, value: np.ndarray[Any, Any]) -> Any:
    """What a file holds, as the same kind of thing as ``like``."""
    if type(like) in _NUMBERS:
        return value.item()
    if isinstance(like, np.generic):
        return value[()]
    if isinstance(like, np.ndarray):
        return value.astype(like.dtype)  # writable, and in its byte order
    old = like.detach().jax() if isinstance(like, Tensor) else like
    with jax.enable_x64(True):
        fresh = jnp.array(value, copy=True)
        if getattr(old, "committed", False):
            fresh = jax.device_put(fresh, old.sharding)
    if not isinstance(like, Tensor):
        return fresh
    return from_array(fresh).requires_grad_(like.requires_grad)


# -- files -----------------------------------------------------------------------------


def _path(op: str, path: Any) -> str:
    try:
        return os.fsdecode(os.fspath(path))
    except TypeError:
        raise ArgumentTypeError(f"[{op}] a path is text or a pathlib.Path, got {shown(path)}") from None


def _read(op: str, path: Any) -> dict[str, np.ndarray[Any, Any]]:
    target = _path(op, path)
    with open(target, "rb") as file:
        data = file.read()
    try:
        entries = safetensors.deserialize(data)
    except safetensors.SafetensorError as error:
        raise _broken(op, target, error) from error
    unknown = [f"{name!r} is {entry['dtype']}" for name, entry in entries if entry["dtype"] not in _DTYPES]
    if unknown:
        raise ArgumentTypeError(f"[{op}] {target!r} holds arrays of dtypes that are not known: {', '.join(unknown)}")
    return {
        name: np.frombuffer(entry["data"], _DTYPES[entry["dtype"]]).reshape(entry["shape"]) for name, entry in entries
    }


def _broken(op: str, path: str, error: Exception) -> ArgumentValueError:
    return ArgumentValueError(f"[{op}] {path!r} is truncated or no safetensors file: {error}")
