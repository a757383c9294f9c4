"""The persistent cache: a second start compiles nothing, and what is no directory is refused."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import pytest
from jax.experimental.compilation_cache import compilation_cache

import torsh_fx as tx
from torsh_fx.persist import VARIABLE, from_environment

SETTINGS = (
    "jax_enable_compilation_cache",
    "jax_compilation_cache_dir",
    "jax_persistent_cache_min_compile_time_secs",
    "jax_persistent_cache_min_entry_size_bytes",
)

# A program of many sorts of small XLA programs, that tells what JAX's cache was asked and had.
# Given a directory, it turns the cache on itself, and only after JAX has compiled without one;
# else all of the process counts, what the import compiles too.
TRAINING = """
import collections, json, sys
import jax
seen = collections.Counter()
jax.monitoring.register_event_listener(lambda event, **_: seen.update([event]))
import torsh_fx as tx
if sys.argv[1:]:
    jax.jit(lambda x: x + 1)(1.0)
    tx.persistent_cache(sys.argv[1])
    seen.clear()
tx.manual_seed(0)
x, y = tx.randn(6, 5), tx.arange(6).unsqueeze(1) % 3
weights = [tx.full((5, 4), 0.1, requires_grad=True), tx.eye(4, 3, requires_grad=True)]
losses = []
for step in range(3):
    hidden = (x @ weights[0] + 0.1 * tx.rand(6, 4)).relu()
    loss = -tx.log_softmax(hidden @ weights[1], dim=1).gather(1, y).mean()
    loss.backward()
    with tx.no_grad():
        for w in weights:
            w -= 0.1 / (step + 1) * w.grad
            w.grad = None
    losses.append(loss.item())
with tx.eager():
    losses.append((x[:, 1:3].sum() + x.amax()).item())
losses.append(tx.jit(lambda a: (a * a).sum())(x).item())
losses.append(tx.value_and_grad(lambda w: (x @ w).tanh().mean())(weights[0])[0].item())
print(json.dumps([losses, *(seen["/jax/compilation_cache/" + name] for name in
    ("compile_requests_use_cache", "cache_hits", "cache_misses"))]))
"""


def start(hash_seed: int, *args: str, **environment: str) -> Any:
    """A new process of that program: ``(losses, programs, read, written)``."""
    environment = {**os.environ, "PYTHONHASHSEED": str(hash_seed), **environment}
    command = [sys.executable, "-c", TRAINING, *args]
    run = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, cwd="/")
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


def now() -> dict[str, Any]:
    return {name: getattr(jax.config, name) for name in SETTINGS}


@pytest.fixture
def settings() -> Iterator[dict[str, Any]]:
    """JAX's settings, with no cache set; put back afterwards."""
    before = now()
    jax.config.update("jax_compilation_cache_dir", None)
    compilation_cache.reset_cache()
    yield now()
    for name, value in before.items():
        jax.config.update(name, value)
    compilation_cache.reset_cache()


# -- what it is for ------------------------------------------------------------------


def test_a_second_start_compiles_nothing(tmp_path):
    losses, programs, read, written = start(1, str(tmp_path))
    assert programs - read == written > 0  # each program once, however small
    assert len(list(tmp_path.glob("*-cache"))) == written
    assert start(2, **{VARIABLE: str(tmp_path)}) == [losses, programs, programs, 0]


def test_it_holds_from_the_call_on(settings, tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"
    jax.config.update("jax_enable_compilation_cache", False)
    jax.jit(lambda x: x + 1)(1.0)  # JAX has made up its mind that there is no cache
    for k, directory in enumerate((first, second)):
        tx.persistent_cache(directory)
        assert not list(directory.iterdir())
        jax.jit(lambda x, k=k: x + k)(2.0)
        assert len(list(directory.glob("*-cache"))) == 1
    assert len(list(first.glob("*-cache"))) == 1


# -- which directory -----------------------------------------------------------------


def test_a_new_directory_is_its_owners_alone(settings, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    made = tmp_path.resolve() / "a" / "b"
    assert tx.persistent_cache("a/b") == str(made) == jax.config.jax_compilation_cache_dir
    assert made.stat().st_mode & 0o077 == 0
    assert not list(made.iterdir())
    (tmp_path / "link").symlink_to(made)
    assert tx.persistent_cache(tmp_path / "link") == str(made)  # one directory, one name in JAX's keys


def test_without_a_path(settings, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert tx.persistent_cache() == str((tmp_path / "xdg" / "torsh_fx").resolve())
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    jax.config.update("jax_compilation_cache_dir", None)
    usual = str((tmp_path / ".cache" / "torsh_fx").resolve())
    assert tx.persistent_cache() == usual
    monkeypatch.delenv("XDG_CACHE_HOME")
    jax.config.update("jax_compilation_cache_dir", None)
    assert tx.persistent_cache() == usual
    jax.config.update("jax_compilation_cache_dir", str(tmp_path / "chosen"))
    assert tx.persistent_cache() == str((tmp_path / "chosen").resolve())  # what JAX is set to stays
    assert tx.persistent_cache("~/mine") == str((tmp_path / "mine").resolve())


# -- what is refused -----------------------------------------------------------------


@pytest.mark.parametrize("path", [3, True, b"cache", ["cache"], object()], ids=repr)
def test_no_path(settings, path):
    with pytest.raises(tx.ArgumentTypeError, match=f"persistent_cache.*str or os.PathLike.*{type(path).__name__}"):
        tx.persistent_cache(path)
    assert now() == settings


REFUSED = {
    "empty": "",
    "remote": "gs://bucket/cache",
    "a file": os.devnull,
    "below a file": f"{os.devnull}/cache",
    "a NUL": "a\0b",
    "nobody's home": "~nobody-has-this-name/cache",
    "too long": "x" * 10_000,
}


@pytest.mark.parametrize("path", REFUSED.values(), ids=REFUSED)
def test_no_directory(settings, path):
    with pytest.raises(tx.ArgumentValueError, match=r"persistent_cache.*directory.*got"):
        tx.persistent_cache(path)
    assert now() == settings


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="needs a directory that even root cannot write")
def test_not_writable(settings):
    with pytest.raises(tx.ArgumentValueError, match=r"persistent_cache.*can write.*/proc/self.*name another"):
        tx.persistent_cache("/proc/self")
    assert now() == settings


# -- the variable --------------------------------------------------------------------


def test_the_variable(settings, tmp_path, monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)
    from_environment()
    monkeypatch.setenv(VARIABLE, "")
    from_environment()
    assert now() == settings
    monkeypatch.setenv(VARIABLE, os.devnull)
    with pytest.warns(RuntimeWarning, match=rf"{VARIABLE} is ignored.*{os.devnull}"):
        from_environment()
    assert now() == settings
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    from_environment()
    assert jax.config.jax_compilation_cache_dir == str(tmp_path.resolve())
