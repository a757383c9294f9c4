"""Compiled programs on disk: JAX's persistent compilation cache, told to keep everything.

JAX keeps by default what took a second to compile; the programs of a training
loop take less, each, and there are many.  So both thresholds go to zero.
"""

from __future__ import annotations

import os
import tempfile
import warnings
from pathlib import Path

from jax.experimental.compilation_cache import compilation_cache

from .rules import ArgumentTypeError, ArgumentValueError
from .rules.context import config

VARIABLE = "TORSH_FX_CACHE_DIR"


def persistent_cache(path: str | os.PathLike[str] | None = None) -> str:
    """Keep every compiled program on disk, so that the next start of this program compiles nothing.

    It turns on JAX's own cache, for all JAX code of the process, with no lower
    bound on a program's size and compile time; the environment variable
    ``TORSH_FX_CACHE_DIR=path`` does the same at import.  Call it before anything
    is computed: what the process has compiled already is not written.  JAX does
    not store programs that call back into Python, and bounds the directory only
    by ``jax_compilation_cache_max_size``.

    Whoever can write to the directory can run code in the process that reads it,
    so a directory made here is its owner's alone.

    Args:
        path: a local directory, made if missing.  None stands for the one that JAX is
            set to use, else ``torsh_fx`` in ``$XDG_CACHE_HOME`` or ``~/.cache``.

    Returns:
        The directory in use, absolute and without symbolic links, since its name
        is a part of JAX's keys.

    Raises:
        ArgumentTypeError: ``path`` is no str, path or None.
        ArgumentValueError: it is empty, no local directory, or cannot be made or
            written; JAX's settings are as before.

    Example:
        >>> persistent_cache(os.devnull)
        Traceback (most recent call last):
        ...
        torsh_fx.rules.errors.ArgumentValueError: persistent_cache needs a directory that it can write, ...
    """
    directory = _writable(_wanted(path))
    config.update("jax_enable_compilation_cache", True)
    config.update("jax_compilation_cache_dir", directory)
    config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    config.update("jax_persistent_cache_min_entry_size_bytes", -1)  # at 0 JAX may choose a bound of its own
    compilation_cache.reset_cache()  # the first two JAX reads once, when it first compiles
    return directory


def from_environment() -> None:
    """Turn the cache on if ``TORSH_FX_CACHE_DIR`` names a directory: called once, at import.

    A directory that cannot be used is a warning: a cache is only about speed, and
    an import must not fail for it.
    """
    path = os.environ.get(VARIABLE)
    if not path:
        return
    try:
        persistent_cache(path)
    except ArgumentValueError as error:
        warnings.warn(f"{VARIABLE} is ignored, programs are compiled anew: {error}", RuntimeWarning, stacklevel=2)


def _wanted(path: object) -> str:
    """The path that was asked for, as text."""
    if path is None:
        home = os.environ.get("XDG_CACHE_HOME", "")  # to be ignored if relative, says its specification
        default = os.path.join(home if os.path.isabs(home) else "~/.cache", "torsh_fx")
        return str(config.jax_compilation_cache_dir or default)
    text = os.fspath(path) if isinstance(path, (str, os.PathLike)) else path
    if not isinstance(text, str):
        raise ArgumentTypeError(
            f"persistent_cache takes the path of a directory as str or os.PathLike, or None, got {type(text).__name__}"
        )
    return text


def _writable(text: str) -> str:
    """The local directory of that path, made if missing and tried."""
    if not text or "://" in text:
        raise ArgumentValueError(
            f"persistent_cache needs a local directory, got {text!r}; for a remote one set "
            "jax_compilation_cache_dir and JAX's thresholds beside it"
        )
    try:
        directory = Path(text).expanduser().resolve()
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=directory):  # permissions alone do not tell: read-only and full disks
            pass
    except (OSError, RuntimeError, ValueError) as error:  # RuntimeError: no such home; ValueError: a NUL in the path
        raise ArgumentValueError(
            f"persistent_cache needs a directory that it can write, got {text!r} ({error}); "
            "name another, or None for the one in your cache"
        ) from error
    return str(directory)
