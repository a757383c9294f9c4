"""Train over two processes, each with its own half of every batch: one command starts both.

    python examples/two_processes.py

As on two machines: the processes meet at an address (here the loopback), JAX joins their
devices to one mesh, and both run this same file.  Each loads its own rows; the gradients
are summed between them.  Process 0 alone prints.
"""

import os
import socket
import subprocess
import sys

os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=2"
os.environ.setdefault("JAX_PLATFORMS", "cpu")

PROCESSES, BATCH, STEPS, RATE = 2, 256, 40, 0.5


def work(address, index):
    # Not above: the process that only starts the others needs none of it.
    import jax
    import numpy as np
    from jax.sharding import PartitionSpec as P
    from sklearn.datasets import load_digits

    import torsh_fx as tx
    from torsh_fx.nn import functional as F

    tx.connect_processes(address, PROCESSES, index, timeout=60)
    mesh = jax.make_mesh((jax.device_count(),), ("data",))
    pixels, labels = load_digits(return_X_y=True)
    pixels = (pixels / 16).astype(np.float32)
    w = tx.distribute(np.zeros((64, 10), np.float32), mesh).requires_grad_()
    rng = np.random.default_rng(0)
    first = None
    for step in range(STEPS):
        rows = rng.integers(0, len(pixels), BATCH)
        mine = np.split(rows, PROCESSES)[index]  # only these are looked up here
        x = tx.distribute(pixels[mine], mesh, P("data"), local=True)
        y = tx.distribute(labels[mine], mesh, P("data"), local=True)
        loss = F.cross_entropy(x @ w, y)
        loss.backward()  # both launch here, so what follows is there for each alone
        with tx.no_grad():
            w -= RATE * w.grad
            w.grad = None
        if index == 0:
            first = loss.item() if first is None else first
            if step % 10 == 9:
                print(f"step {step + 1}  loss {loss.item():.4f} of {len(rows)} rows, {len(mine)} of them here")
    if index == 0:
        try:
            w.sum().item()  # pending, and process 1 does not ask for it
        except tx.AutogradError as error:
            print(f"refused: {str(error).partition(':')[0]}")
    tx.synchronize()
    if index == 0:
        guess = (pixels @ w.detach().numpy()).argmax(1)
        print(f"accuracy {(guess == labels).mean():.1%} with {jax.device_count()} devices of {PROCESSES} processes")
        assert loss.item() < 0.5 * first
        assert (guess == labels).mean() > 0.9


def main():
    with socket.socket() as probe:  # any free port
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    running = [subprocess.Popen([sys.executable, __file__, address, str(k)]) for k in range(PROCESSES)]
    try:
        codes = [process.wait(timeout=120) for process in running]
    finally:
        for process in running:
            process.kill()
    assert codes == [0] * PROCESSES, codes


if __name__ == "__main__":
    if len(sys.argv) == 3:
        work(sys.argv[1], int(sys.argv[2]))
    else:
        main()
