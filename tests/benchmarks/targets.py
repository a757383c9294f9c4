"""What the table must show on 2 cores: limits on ratios of columns, and on what is measured apart."""

from __future__ import annotations

from dataclasses import dataclass

from columns import BY_HAND, COMPILED, FUNCTIONAL, IMPERATIVE, PYTORCH, WHOLE
from workloads import WORKLOADS

SMALL, MIDDLE, LARGE = "mlp 8x16x32", "mlp 64x64x128", "mlp 256x784x512"
BLOCK, CNN, LARGE_CNN = "attention 8x128x256", "cnn 64x1x8x8", "cnn 64x1x28x28"
LSTM, CHAIN = "lstm, 64 steps", "chain, 1000 steps"


@dataclass(frozen=True)
class Target:
    """At most ``limit`` times the column ``to``, on these workloads."""

    of: str
    to: str
    limit: float
    workloads: tuple[str, ...]


def _all_but(*names: str) -> tuple[str, ...]:
    return tuple(n for n in WORKLOADS if n not in names)


TARGETS = (
    Target(IMPERATIVE, PYTORCH, 0.85, (SMALL, MIDDLE)),
    Target(IMPERATIVE, PYTORCH, 0.70, (LARGE,)),
    Target(IMPERATIVE, PYTORCH, 0.80, (CHAIN,)),
    Target(IMPERATIVE, PYTORCH, 2.00, (LARGE_CNN,)),
    Target(IMPERATIVE, PYTORCH, 1.00, _all_but(SMALL, MIDDLE, LARGE, CHAIN, LARGE_CNN)),
    Target(IMPERATIVE, BY_HAND, 1.60, (SMALL,)),
    # "From 256x784x512 up": what takes at least as long by hand.
    Target(IMPERATIVE, BY_HAND, 1.05, (LARGE, BLOCK, LARGE_CNN)),
    Target(COMPILED, BY_HAND, 1.25, (SMALL,)),
    Target(COMPILED, BY_HAND, 1.03, _all_but(SMALL)),
    Target(WHOLE, BY_HAND, 1.03, (LSTM, CHAIN)),
    Target(FUNCTIONAL, BY_HAND, 0.70, (BLOCK,)),
    Target(FUNCTIONAL, BY_HAND, 0.80, (CNN, LARGE_CNN)),
    Target(FUNCTIONAL, BY_HAND, 1.02, _all_but(BLOCK, CNN, LARGE_CNN)),
)
FIRST_STEP = {(IMPERATIVE, CHAIN): 0.5}  # seconds
RECORDING = 1.5  # of what PyTorch eager needs to run the op
VARIETY = 5.0  # of PyTorch eager, steps whose structure never comes back
PEAK_BYTES = 1.1  # of a donating step by hand that also returns the gradients


def limit(of: str, to: str, workload: str) -> float | None:
    found = [t.limit for t in TARGETS if (t.of, t.to) == (of, to) and workload in t.workloads]
    return found[0] if found else None
