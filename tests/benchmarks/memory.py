"""Peak bytes of a training step: what XLA's programs need at once, beside the arrays alive around them.

Every program that runs is one that ``jax.jit`` made; for a while we put our own
``jax.jit`` in its place, which asks each program's ``memory_analysis()`` when it
is called.  So the same ruler lies on a step by hand and on whatever our executor
does.
"""

from __future__ import annotations

import contextlib
import functools
import gc
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import jax
from columns import BY_HAND, COLUMNS, IMPERATIVE
from workload import Workload

WARM, STEPS = 5, 3


def measure_memory(w: Workload) -> dict[str, int]:
    """Peak bytes by column."""
    return {name: _peak(functools.partial(COLUMNS[name], w)) for name in (BY_HAND, IMPERATIVE)}


def _peak(make: Callable[[], Any]) -> int:
    gc.collect()
    before = jax.live_arrays()  # other people's, held so that none is freed and counted as ours
    with _watched() as watch:
        step = make()
        for _ in range(WARM):
            step.run().item()
        gc.collect()
        watch.ignored = {id(a) for a in before}
        watch.peak, watch.on = 0, True
        for _ in range(STEPS):
            step.run().item()
        watch.on = False
    if not watch.peak:
        raise AssertionError("no program was seen to run: is jax.jit no longer what makes them?")
    return watch.peak


class _Watch:
    def __init__(self) -> None:
        self.on, self.peak, self.ignored = False, 0, set[int]()
        self.analysed: dict[Any, tuple[int, Any]] = {}  # holds the program: its id is the key

    def note(self, program: Any, args: Any, kwargs: Any) -> None:
        leaves = [a for a in jax.tree.leaves((args, kwargs)) if isinstance(a, jax.Array)]
        if not self.on or any(isinstance(a, jax.core.Tracer) for a in leaves):
            return
        shapes = tuple((a.shape, str(a.dtype)) for a in leaves)
        if (id(program), shapes) not in self.analysed:
            compiled = program.lower(*args, **kwargs).compile() if hasattr(program, "lower") else program
            found = compiled.memory_analysis()
            size = found.argument_size_in_bytes + found.output_size_in_bytes + found.temp_size_in_bytes
            self.analysed[id(program), shapes] = size - found.alias_size_in_bytes, program
        inside, _ = self.analysed[id(program), shapes]
        beside = _bytes(a for a in jax.live_arrays() if id(a) not in self.ignored) - _bytes(leaves)
        self.peak = max(self.peak, inside + beside)


def _bytes(arrays: Iterable[jax.Array]) -> int:
    buffers = {a.unsafe_buffer_pointer(): a.nbytes for a in arrays if not a.is_deleted()}
    return sum(buffers.values())


class _Watched:
    """A jitted, lowered or compiled function that is noted when it runs; for the rest as it was."""

    def __init__(self, watch: _Watch, inner: Any) -> None:
        self._watch, self._inner = watch, inner

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self._watch.note(self._inner, args, kwargs)
        return self._inner(*args, **kwargs)

    def lower(self, *args: Any, **kwargs: Any) -> _Watched:
        return _Watched(self._watch, self._inner.lower(*args, **kwargs))

    def compile(self, *args: Any, **kwargs: Any) -> _Watched:
        return _Watched(self._watch, self._inner.compile(*args, **kwargs))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


@contextlib.contextmanager
def _watched() -> Iterator[_Watch]:
    watch, jit = _Watch(), jax.jit

    def watched_jit(*args: Any, **kwargs: Any) -> Any:
        made = jit(*args, **kwargs)
        return _Watched(watch, made) if args else lambda fn: _Watched(watch, made(fn))

    setattr(jax, "jit", watched_jit)  # noqa: B010  what mypy allows
    try:
        yield watch
    finally:
        setattr(jax, "jit", jit)  # noqa: B010
