"""Fair conditions: PyTorch's threads waiting in the way that suits them, and how much others used the machine."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

_PROBE = """
import time, torch
torch.set_num_threads({threads})
found = 0.0
for batch, width, calls in ((64, 128, 300), (256, 512, 30)):
    x, w = torch.randn(batch, width), torch.randn(width, width)
    times = []
    for _ in range(9):
        began = time.perf_counter()
        for _ in range(calls):
            torch.relu(torch.nn.functional.linear(x, w))
        times.append(time.perf_counter() - began)
    found += sorted(times)[4]
print(found)
"""
_SPIN = "GOMP_SPINCOUNT"


def choose_waiting(threads: int) -> str:
    """Let OpenMP's threads wait as PyTorch is fastest now; before torch is imported.  Returns what was chosen.

    They spin at their barriers, which is fastest on a quiet machine and 10 to 50
    times slower than sleeping when somebody else needs a core.
    """
    if _SPIN in os.environ or "OMP_WAIT_POLICY" in os.environ:
        return "OpenMP waits as the environment says"
    usual, short = dict(os.environ), {**os.environ, _SPIN: "1000"}
    times: dict[str, list[float]] = {"usual": [], "short": []}
    for _ in range(2):
        for name, environment in (("usual", usual), ("short", short)):
            code = _PROBE.format(threads=threads)
            run = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
            if run.returncode:
                return "no PyTorch to ask"
            times[name].append(float(run.stdout))
    if max(times["usual"]) <= min(times["short"]) * 1.1:
        return "OpenMP threads spin as usual, faster here"
    os.environ[_SPIN] = "1000"
    return f"{_SPIN}=1000, faster here now: the machine was not quiet"


class Others:
    """The share of the machine that other processes used since this was made."""

    def __init__(self) -> None:
        self.began, self.busy = time.perf_counter(), _busy_elsewhere()

    def share(self) -> float | None:
        now = _busy_elsewhere()
        if now is None or self.busy is None:
            return None
        elapsed = (time.perf_counter() - self.began) * (os.cpu_count() or 1)
        return max(now - self.busy, 0.0) / elapsed


def _busy_elsewhere() -> float | None:
    """Seconds of CPU that were not ours, on Linux."""
    try:
        fields = Path("/proc/stat").read_text(encoding="utf-8").split("\n", 1)[0].split()[1:]
    except OSError:
        return None
    user, nice, system, _, _, irq, soft, steal = map(int, fields[:8])
    busy = (user + nice + system + irq + soft + steal) / os.sysconf("SC_CLK_TCK")
    return busy - sum(os.times()[:4])
