"""How fast, as ratios inside one run: python tests/benchmarks/run.py [options]

First what recording an op costs and what memory a step needs; then the ways to
take the same training steps, timed in interleaved rounds.  Prints a table, and
writes it beside this file as results.md with a chart, results.svg; a partial run
(--only, --columns, --quick) only prints.  Absolute times depend on the machine and
its mood; a ratio is the median over the rounds.
"""

from __future__ import annotations

import argparse
import os
import platform
from importlib.metadata import version
from pathlib import Path

from quiet import choose_waiting

CORES = 2  # what the targets are for


def keep_to_cores() -> int:
    """Restrict this process to ``CORES``, where the system can: before jax and torch count them."""
    if not hasattr(os, "sched_setaffinity"):
        return os.cpu_count() or 1
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:CORES])
    return len(os.sched_getaffinity(0))


def facts(cores: int, rounds: int, waiting: str) -> dict[str, str]:
    import jax
    import numpy as np
    from columns import torch_or_none

    torch = torch_or_none()
    if torch:
        torch.set_num_threads(CORES)
    threads = f"{torch.__version__}, {torch.get_num_threads()} threads, {waiting}" if torch else "not installed"
    device = jax.devices()[0]
    return {
        "machine": f"{processor()}, {cores} cores used of {os.cpu_count()}",
        "XLA's device": f"{device.platform}, {device.device_kind}",
        "Python": platform.python_version(),
        "JAX": f"{jax.__version__}, jaxlib {version('jaxlib')}, as many threads as cores",
        "PyTorch": threads,
        "NumPy": np.__version__,
        "rounds": f"{rounds}, interleaved",
    }


def processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", metavar="NAME", help="what has NAME in its name")
    parser.add_argument("--rounds", type=int, metavar="N", help="rounds, at least 15 for figures to quote")
    parser.add_argument("--quick", action="store_true", help="5 rounds of what is small and soon compiled")
    parser.add_argument("--columns", metavar="NAMES", help="columns to build, parts of their names between commas")
    options = parser.parse_args()
    rounds = options.rounds or (5 if options.quick else 15)
    cores = keep_to_cores()
    os.environ["JAX_ENABLE_COMPILATION_CACHE"] = "false"  # a first step shall compile

    waiting = choose_waiting(CORES)

    from report import report

    report(facts(cores, rounds, waiting), rounds, options.only, options.quick, options.columns)


if __name__ == "__main__":
    main()
