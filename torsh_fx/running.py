"""What can go wrong while a program runs: XLA's errors, bad indices, Ctrl-C.  For recorded and compiled steps alike."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from .graph import Guard
from .program import Program
from .rules import OutOfRangeError, TorshError
from .trail import placed


def launch(
    program: Program,
    guards: Sequence[Guard],
    box: list[Any],
    run: Callable[[], bool],
    destroyed: Callable[[], str],
    what: str,
) -> None:
    """Let ``run`` fill ``box`` with what comes out; it stays empty unless that may be committed.

    Args:
        program: what is run.
        guards: the index checks whose flags come out last.
        box: an empty list.
        run: says whether everything that went in still exists afterwards.
        destroyed: tells in words what a failure has cost.
        what: is run, in words.
    """
    first = not program.ran
    try:
        with jax.enable_x64(True), _off_explicit_axes():
            intact = run()
        if intact and (first or program.n_guards or program.careful):
            found = box.pop()  # not to be committed before it is known to be right
            _check(guards, found[len(found) - program.n_guards :])
            box.append(jax.block_until_ready(found))
    except (jax.errors.JaxRuntimeError, ValueError) as error:  # out of memory, a callback that raised
        program.ran = False
        if not _by_xla(error):
            raise
        raise TorshError(f"XLA could not run {what}: {error}{destroyed()}") from error


def _off_explicit_axes() -> Any:
    """Values on a mesh lie on automatic axes, and JAX wants the surrounding mesh to agree."""
    ambient = jax.sharding.get_abstract_mesh()
    if not placed or ambient.empty or jax.sharding.AxisType.Explicit not in ambient.axis_types:
        return contextlib.nullcontext()
    return jax.sharding.use_abstract_mesh(jax.sharding.AbstractMesh((), ()))


def _by_xla(error: Exception) -> bool:
    """Is it XLA's, rather than that of Python code which is traced?  At dispatch a status is a ValueError."""
    return isinstance(error, jax.errors.JaxRuntimeError) or str(error).startswith(_STATUSES)


_STATUSES = ("INTERNAL: ", "INVALID_ARGUMENT: ", "RESOURCE_EXHAUSTED: ", "UNKNOWN: ", "FAILED_PRECONDITION: ")


def _check(guards: Sequence[Guard], flags: Sequence[Any]) -> None:
    for guard, flag in zip(guards, flags, strict=True):
        bad, index = np.asarray(flag)
        if bad:  # nothing of this program is committed
            raise OutOfRangeError(f"[{guard.op}] index {index} is out of range for {guard.what}, at {guard.where}")


def shielded(commit: Callable[..., None], *args: Any) -> None:
    """Do ``commit``, which may be begun again, in spite of Ctrl-C, which is raised afterwards.

    The first try is the caller's own: an interrupt as this is entered would lose it.
    """
    try:
        commit(*args)
    except KeyboardInterrupt:
        shielded(commit, *args)
        raise


def lost(program: Program, leaves: Sequence[Any], arrays: Sequence[Any]) -> str:
    """What a failed run has destroyed, in words."""
    gone = [leaves[k] for k in program.donated if arrays[k].is_deleted()]
    if not gone:
        return ""
    listed = ", ".join(f"{n.aval.dtype}{list(n.aval.shape)}" for n in gone)
    return f"\nIt had been given the memory of {len(gone)} overwritten value(s), which are lost: {listed}"
