"""Several processes over one mesh: how they meet, and launch together; see NOTE [several] in ``alone``."""

from __future__ import annotations

import contextlib
import json
import socket
import time
from typing import Any

import jax

from . import executor
from .rules import ArgumentTypeError, ArgumentValueError, TorshError
from .rules.kinds import shown
from .tensor import Tensor


def connect_processes(address: str, count: int, index: int, *, timeout: float = 60, heartbeat: int = 10) -> None:
    """Join ``count`` processes, so that ``jax.devices()`` lists the devices of all; call it before any computation.

    They first meet at ``address``, so that one that is missing is an error here; then JAX
    takes over (``jax.distributed``), which ends all of them, with a message, when one dies.

    Args:
        address: "host:port" where process 0 listens.
        count: how many there are.
        index: which one this is, from 0.
        timeout: seconds to wait for the others.
        heartbeat: seconds of silence after which a process counts as dead.

    Raises:
        TorshError: some did not come in time; the message says which. Or JAX could not begin.
        ArgumentValueError: ``address``, ``count`` or ``index`` make no sense, or two processes disagree about them.

    Source: ``jax.distributed.initialize``.
    """
    host, port = _split(address)
    for name, value in (("count", count), ("index", index)):
        if not isinstance(value, int) or isinstance(value, bool):
            raise ArgumentTypeError(f"[connect_processes] {name} must be an integer, got {shown(value)}")
    if not 0 <= index < count:
        raise ArgumentValueError(f"[connect_processes] index {index} is not among {count} processes")
    if not timeout > 0 or not heartbeat > 0:
        raise ArgumentValueError(f"[connect_processes] timeout {timeout} and heartbeat {heartbeat} must be positive")
    deadline = time.monotonic() + timeout
    if index == 0:
        _gather(host, port, count, deadline, address)
    else:
        _arrive(host, port, count, index, deadline, address)
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    try:
        jax.distributed.initialize(
            address,
            count,
            index,
            initialization_timeout=max(int(timeout), 1),
            heartbeat_timeout_seconds=max(int(heartbeat), 1),
            shutdown_timeout_seconds=max(int(heartbeat), 1),
        )
    except (RuntimeError, ValueError) as error:
        raise TorshError(f"[connect_processes] JAX could not join process {index} of {count}: {error}") from error


def synchronize(*tensors: Tensor) -> None:
    """Compute what is pending, on all processes alike, and wait for ``tensors``.

    Where several processes share a mesh, each must call it at the same point: after it one
    of them alone can read what is whole on its devices.

    Raises:
        ArgumentTypeError: something else than Tensors.

    Example:
        >>> x = ones(3) * 2
        >>> synchronize(x)
        >>> x.tolist()
        [2.0, 2.0, 2.0]
    """
    for t in tensors:
        if not isinstance(t, Tensor):
            raise ArgumentTypeError(f"[synchronize] expected Tensors, got {shown(t)}")
    executor.flush(cause="synchronize()")
    jax.block_until_ready([executor.force(t._node) for t in tensors if not t._node.traced])


# -- meeting ---------------------------------------------------------------------------------


def _split(address: Any) -> tuple[str, int]:
    if not isinstance(address, str):
        raise ArgumentTypeError(f"[connect_processes] address must be text, got {shown(address)}")
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 2**16:
        raise ArgumentValueError(f"[connect_processes] address must be 'host:port', got {address!r}")
    return host, int(port)


def _gather(host: str, port: int, count: int, deadline: float, address: str) -> None:
    """Process 0: wait for the others, and tell all of them whether to go on."""
    here: dict[int, socket.socket] = {}
    trouble = None
    with contextlib.ExitStack() as stack:
        try:
            server = stack.enter_context(socket.create_server((host, port)))
        except OSError as error:
            raise TorshError(f"[connect_processes] process 0 cannot listen at {address}: {error}") from error
        while len(here) < count - 1 and trouble is None:
            server.settimeout(max(deadline - time.monotonic(), 0.001))
            try:
                peer = stack.enter_context(server.accept()[0])
                said = _heard(peer, min(deadline, time.monotonic() + 5))
            except TimeoutError:
                missing = sorted({*range(1, count)} - {*here})
                trouble = f"{len(missing)} of {count} processes did not come to {address} in time: {missing}"
                break
            if said is None:
                continue  # not one of ours
            if said["count"] != count or said["index"] in {0, *here} or said["index"] >= count:
                trouble = f"process {said['index']} of {said['count']} came to {address} where {count} meet, each once"
            here[said["index"]] = peer
        for peer in here.values():
            _say(peer, {"trouble": trouble})
        if trouble is not None:
            raise TorshError(f"[connect_processes] {trouble}")
        for peer in here.values():  # they leave first, so that the port is free for JAX
            _heard(peer, time.monotonic() + 5)


def _arrive(host: str, port: int, count: int, index: int, deadline: float, address: str) -> None:
    """Every other process: find process 0, and wait for its word."""
    answer = None
    while answer is None:
        left = deadline - time.monotonic()
        if left <= 0:
            raise TorshError(
                f"[connect_processes] process {index} of {count} found no process 0 at {address} in time; does it run?"
            )
        try:
            with socket.create_connection((host, port), timeout=left) as peer:
                _say(peer, {"index": index, "count": count})
                answer = _heard(peer, deadline + 5)  # which process 0 gives at its own deadline
        except OSError:
            answer = None
        if answer is None:
            time.sleep(0.05)
    if answer["trouble"] is not None:
        raise TorshError(f"[connect_processes] {answer['trouble']}")


def _say(peer: socket.socket, what: dict[str, Any]) -> None:
    with contextlib.suppress(OSError):  # it has gone: that will show
        peer.sendall(json.dumps(what).encode() + b"\n")


def _heard(peer: socket.socket, deadline: float) -> dict[str, Any] | None:
    """One line of what the other one says; None if it says nothing that we know."""
    found = b""
    while not found.endswith(b"\n"):
        peer.settimeout(max(deadline - time.monotonic(), 0.001))
        try:
            part = peer.recv(4096)
        except OSError:
            return None
        if not part or len(found) > 4096:
            return None
        found += part
    try:
        said = json.loads(found)
    except ValueError:
        return None
    return said if isinstance(said, dict) and ("index" in said or "trouble" in said) else None
