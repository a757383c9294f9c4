"""An exported program: called, asked, saved, loaded.

NOTE [format]: a file holds the bytes of ``jax.export``, then what we say about them
(JSON, its length, a mark).  JAX finds its own part from the front and does not look at
the rest, so a process without this package loads the file as it stands.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
from typing import Any

import jax
from jax import export as jax_export

from .files import write_whole
from .lift import Inside, call, is_tensor
from .rules import ArgumentTypeError, ArgumentValueError, AutogradError, TorshError
from .rules.kinds import shown
from .state import here
from .tensor import from_array

FORMAT = 1
_MARK = b"torsh_fx.export\n"
_NO_GRADIENT = (
    "[export] an argument requires grad, and the program was exported without gradients: export it with vjp_order=1, "
    "or detach() the argument"
)


class Exported:
    """What ``export`` made or ``load_export`` read: call it, ask it, save it.

    Called with Tensors it returns Tensors, with arrays arrays; ``jax`` is the
    ``jax.export.Exported`` inside, ``about`` says what it is (``platforms``, ``inputs``,
    ``outputs``, ``vjp_order``, ``x64``, ``narrow``, ``constants``, versions).
    """

    def __init__(self, inner: jax_export.Exported, about: dict[str, Any]) -> None:
        self.jax, self.about = inner, about

    @property
    def needs_x64(self) -> bool:
        """Must a process that runs it have ``jax_enable_x64`` set, as it takes or gives 64-bit numbers?"""
        return bool(self.about["x64"])

    @property
    def platforms(self) -> tuple[str, ...]:
        """What it can run on."""
        return tuple(self.about["platforms"])

    def __call__(self, *args: Any) -> Any:
        tensors = [x for x in jax.tree.leaves(args, is_leaf=is_tensor) if is_tensor(x)]
        if not tensors:
            return self._call(*args)
        if not self.about["vjp_order"] and here().grad and any(t.requires_grad for t in tensors):
            raise AutogradError(_NO_GRADIENT)

        def on_tensors(*args: Any) -> Any:
            bare = jax.tree.map(lambda x: x.jax() if is_tensor(x) else x, args, is_leaf=is_tensor)
            return jax.tree.map(from_array, self._call(*bare))

        inside = Inside(on_tensors, "export")
        return call(inside, inside, args, {})

    def _call(self, *args: Any) -> Any:
        """On arrays; what the program was not made for is refused in our words."""
        try:
            with jax.enable_x64(True):
                return (self.jax.call if self.jax.has_vjp() else self._forward_only())(*args)
        except (ValueError, TypeError) as error:
            if isinstance(error, TorshError):
                raise
            raise ArgumentValueError(
                f"[export] the exported program takes {', '.join(map(str, self.about['inputs']))}: {error}"
            ) from error

    def _forward_only(self) -> Any:
        """The call where no gradient was saved, which JAX's own error would not say how to mend."""

        def refuse(*_: Any) -> Any:
            raise AutogradError(_NO_GRADIENT)

        forward = jax.custom_vjp(self.jax.call)
        forward.defvjp(refuse, refuse)
        return forward

    def __repr__(self) -> str:
        a = self.about
        first = f"exported for {', '.join(a['platforms'])}, gradients of order {a['vjp_order']}"
        flag = "; needs jax_enable_x64 where it runs" if a["x64"] else ""
        return f"<{first}: ({', '.join(a['inputs'])}) -> ({', '.join(a['outputs'])}){flag}>"

    def serialize(self) -> bytes:
        """The artefact as bytes, for ``jax.export.deserialize`` or ``load_export``.

        Raises:
            ImportError: flatbuffers is missing, which the extra ``export`` brings.
            AutogradError: a container among arguments or results is none that bare JAX knows.
        """
        _need_flatbuffers()
        try:
            with jax.enable_x64(True):
                payload = bytes(self.jax.serialize(vjp_order=self.about["vjp_order"]))
        except ValueError as error:
            raise AutogradError(
                f"[export] arguments and results must be tuples, lists and dicts, which bare JAX knows: {error}"
            ) from error
        about = json.dumps({**self.about, "bytes": len(payload), "sha256": hashlib.sha256(payload).hexdigest()})
        tail = about.encode()
        return payload + tail + len(tail).to_bytes(8, "little") + _MARK

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write ``serialize()`` to a file, all of it or nothing: what was there stays until the new one is whole."""
        write_whole(os.fspath(path), self.serialize())


def load_export(source: str | os.PathLike[str] | bytes) -> Exported:
    """Read what ``Exported.save`` wrote; ``jax.export.deserialize`` reads the same file without this package.

    Args:
        source: a path, or the bytes themselves.

    Raises:
        ArgumentValueError: it is no such artefact, was cut short or changed, or a newer version wrote it.
        ArgumentTypeError: neither a path nor bytes.
        ImportError: flatbuffers is missing, which the extra ``export`` brings.

    Example:
        >>> made = export(lambda x: x * 2, tensor([1.0]))
        >>> load_export(made.serialize())(tensor([3.0]))
        tensor([6.])
    """
    if isinstance(source, (bytes, bytearray, memoryview)):
        data, what = bytes(source), "this"
    elif isinstance(source, (str, os.PathLike)):
        what = repr(os.fspath(source))
        with open(source, "rb") as file:
            data = file.read()
    else:
        raise ArgumentTypeError(f"[load_export] expected a path or bytes, got {shown(source)}")
    payload, about = _parts(data, what)
    _need_flatbuffers()
    try:
        with jax.enable_x64(True):
            inner = jax_export.deserialize(bytearray(payload))
    except Exception as error:
        raise ArgumentValueError(
            f"[load_export] JAX {jax.__version__} cannot read {what}, which JAX {about['jax']} wrote: {error}"
        ) from error
    return Exported(inner, about)


def _parts(data: bytes, what: str) -> tuple[bytes, dict[str, Any]]:
    """The bytes of ``jax.export`` and what is said about them; both checked."""
    body = data.removesuffix(_MARK)
    if body is data or len(body) < 8:
        raise ArgumentValueError(f"[load_export] {what} was not written by torsh_fx's export, or it was cut short")
    start = len(body) - 8 - int.from_bytes(body[-8:], "little")
    try:
        about = json.loads(body[max(start, 0) : -8])
        version, size, digest = about["format"], about["bytes"], about["sha256"]
    except (ValueError, KeyError, TypeError) as error:
        raise ArgumentValueError(f"[load_export] {what} is damaged: its description cannot be read") from error
    if version > FORMAT:
        raise ArgumentValueError(
            f"[load_export] {what} has format {version}, written by torsh_fx {about.get('torsh_fx')}; this version "
            f"reads up to format {FORMAT}: upgrade torsh_fx"
        )
    payload = body[: max(start, 0)]
    if len(payload) != size or hashlib.sha256(payload).hexdigest() != digest:
        raise ArgumentValueError(f"[load_export] {what} is damaged: {len(payload)} bytes of {size}, or other ones")
    return payload, about


def _need_flatbuffers() -> None:
    try:
        found = importlib.util.find_spec("flatbuffers")
    except ValueError:  # in sys.modules, without a spec
        found = None
    if found is None:
        raise ImportError(
            "serialising needs flatbuffers, which is not installed: python -m pip install 'torsh_fx[export]'"
        )
