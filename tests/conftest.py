"""What every test starts from and must leave behind."""

from __future__ import annotations

import gc
import os
import sys
import zlib
from collections.abc import Iterator
from importlib import metadata

import pytest

# Before JAX is imported: CPU unless the environment chose, and eight devices of it.
os.environ.setdefault("JAX_PLATFORMS", "cpu")
if "xla_force_host_platform_device_count" not in os.environ.get("XLA_FLAGS", ""):
    os.environ["XLA_FLAGS"] = (os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=8").strip()

# Most of the suite's time is XLA compiling small programs once; --full lets it optimise.
if "--full" not in sys.argv:
    os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")
    # XLA's older CPU emitters build these programs in under half the time.  Other versions may not
    # know the flag, and XLA ends the process over an unknown one.
    if metadata.version("jaxlib").startswith("0.10.") and "fusion_emitters" not in os.environ["XLA_FLAGS"]:
        os.environ["XLA_FLAGS"] += " --xla_cpu_use_fusion_emitters=false"

import jax
import jax.numpy as jnp
import numpy as np

import torsh_fx as tx

# Programs and their traces are millions of objects that stay: looking through them often is a tenth of the time.
gc.set_threshold(200_000, 20, 100)

# Lines that a test module wants at the end of the run.
SUMMARY = pytest.StashKey[list[str]]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[SUMMARY] = []


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    for line in config.stash[SUMMARY]:
        terminalreporter.write_line(line)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--full", action="store_true", help="every sample, dtype and composition, not a part of them")


@pytest.fixture(scope="session")
def full(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--full"))


@pytest.fixture(autouse=True, scope="module")
def room(request: pytest.FixtureRequest) -> Iterator[None]:
    """A module of many tests takes its programs with it: nobody else runs them, and they are gigabytes."""
    yield
    if sum(item.path == request.path for item in request.session.items) > 200:
        tx.clear_cache()
        jax.clear_caches()


@pytest.fixture(autouse=True)
def clean(request: pytest.FixtureRequest) -> Iterator[None]:
    """Seed NumPy by the test's name; afterwards no trace, mesh or flag may linger."""
    np.random.seed(zlib.crc32(request.node.nodeid.encode()) % 2**32)
    flag, precision = bool(jax.config.jax_enable_x64), jax.config.jax_default_matmul_precision
    yield
    jax.config.update("jax_default_matmul_precision", precision)
    assert bool(jax.config.jax_enable_x64) == flag, "the test changed jax_enable_x64"
    assert jax.sharding.get_abstract_mesh().empty, "the test left a mesh set"
    assert not isinstance(jnp.add(np.zeros(()), 1), jax.core.Tracer), "the test left a trace open"
