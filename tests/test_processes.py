"""Two processes over one mesh: they compute what one does, and nothing hangs if one is missing, dies or looks alone."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import torsh_fx as tx
from torsh_fx import processes

WORKER = Path(__file__).with_name("process_worker.py")
F = tx.nn.functional


def free_address() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{probe.getsockname()[1]}"


def run_both(what: str, timeout: float = 120) -> list[tuple[int, str]]:
    """Exit status and output of both; whatever happens, none is left."""
    address = free_address()
    command = [sys.executable, str(WORKER), address]
    pipes: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    running = [subprocess.Popen([*command, str(k), what], **pipes) for k in range(2)]
    try:
        outputs = [process.communicate(timeout=timeout)[0] for process in running]
    finally:
        for process in running:
            process.kill()
    return [(process.returncode, text) for process, text in zip(running, outputs, strict=True)]


def test_two_processes_compute_what_one_does() -> None:
    (first, text), (second, other) = run_both("everything")
    assert (first, second) == (0, 0), text + other
    line = next(line for line in text.splitlines() if line.startswith("LOSSES"))
    from process_worker import data, losses_of

    x, y, w = data()
    want = losses_of(tx.tensor(x), tx.tensor(y), tx.tensor(w).requires_grad_(), 3)
    np.testing.assert_allclose([float(part) for part in line.split()[1:]], want, rtol=1e-5)
    assert "LOSSES" not in other


def test_a_process_that_dies_ends_the_others() -> None:
    began = time.monotonic()
    (first, text), (second, _) = run_both("dies", timeout=90)
    assert time.monotonic() - began < 90
    assert second == 7
    assert "BEGAN" in text
    assert first not in (0, 7), text  # with an error, and at once rather than never
    assert "DONE" not in text


# -- meeting, which happens before JAX is asked --------------------------------------------


def test_a_missing_process() -> None:
    address = free_address()
    with pytest.raises(tx.TorshError, match=rf"2 of 3 processes did not come to {address}.*\[1, 2\]"):
        tx.connect_processes(address, 3, 0, timeout=0.3)
    with pytest.raises(tx.TorshError, match=rf"process 1 of 2 found no process 0 at {address}"):
        tx.connect_processes(address, 2, 1, timeout=0.3)


def meet(*sides: tuple[int, int], seconds: float = 1.0) -> list[str]:
    """What becomes of processes (index, count) that come to one address, as threads."""
    address = free_address()
    port = int(address.rpartition(":")[2])
    found: list[str] = [""] * len(sides)

    def come(k: int, index: int, count: int) -> None:
        deadline = time.monotonic() + seconds
        try:
            if index == 0:
                processes._gather("127.0.0.1", port, count, deadline, address)
            else:
                processes._arrive("127.0.0.1", port, count, index, deadline, address)
            found[k] = "met"
        except tx.TorshError as error:
            found[k] = str(error)

    threads = [threading.Thread(target=come, args=(k, *side)) for k, side in enumerate(sides)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive()
    return found


def test_all_come() -> None:
    assert meet((0, 3), (2, 3), (1, 3), seconds=20) == ["met"] * 3
    assert meet((0, 1)) == ["met"]


def test_all_hear_who_is_missing() -> None:
    found = meet((0, 3), (1, 3))
    assert all("1 of 3 processes did not come" in text and "[2]" in text for text in found), found


@pytest.mark.parametrize("sides", [((0, 2), (1, 3)), ((0, 3), (1, 3), (1, 3)), ((0, 2), (5, 7))])
def test_processes_that_disagree(sides: Any) -> None:
    found = meet(*sides, seconds=3)
    assert "met" not in found
    assert any("each once" in text for text in found), found


def test_a_stranger_at_the_door() -> None:
    """Something else that connects is not taken for a process."""
    address = free_address()
    host, port = address.split(":")
    results: list[str] = []

    def host_it() -> None:
        processes._gather(host, int(port), 2, time.monotonic() + 20, address)
        results.append("met")

    thread = threading.Thread(target=host_it)
    thread.start()
    for _ in range(200):
        try:
            with socket.create_connection((host, int(port)), timeout=5) as stranger:
                stranger.sendall(b"GET / HTTP/1.1\r\n\r\n")
            break
        except OSError:
            time.sleep(0.02)
    processes._arrive(host, int(port), 2, 1, time.monotonic() + 20, address)
    thread.join(30)
    assert results == ["met"]


@pytest.mark.parametrize(
    ("arguments", "error", "match"),
    [
        (("here", 2, 0), ValueError, "host:port.*'here'"),
        (("here:port", 2, 0), ValueError, "host:port"),
        ((1234, 2, 0), TypeError, "address.*int"),
        (("127.0.0.1:1234", 2, 2), ValueError, "index 2.*2 processes"),
        (("127.0.0.1:1234", 2, -1), ValueError, "index -1"),
        (("127.0.0.1:1234", "2", 0), TypeError, "count.*'2'"),
        (("127.0.0.1:1234", 2, True), TypeError, "index.*True"),
    ],
)
def test_bad_input(arguments: Any, error: Any, match: str) -> None:
    with pytest.raises(error, match=match):
        tx.connect_processes(*arguments)
    with pytest.raises(ValueError, match="timeout 0"):
        tx.connect_processes("127.0.0.1:1234", 2, 0, timeout=0)


def test_the_address_is_taken() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(tx.TorshError, match=f"cannot listen at {address}"):
            tx.connect_processes(address, 2, 0, timeout=1)


def test_synchronize_alone() -> None:
    x = tx.ones(3) * 2
    tx.synchronize(x)
    assert x.tolist() == [2.0] * 3
    tx.synchronize()
    with pytest.raises(tx.ArgumentTypeError, match=r"Tensors.*int"):
        tx.synchronize(3)  # type: ignore[arg-type]
