"""PyTorch's own samples (``op_db``) run by PyTorch and by us: forward, gradient, double backward, forward mode.

NOTE [one program]: everything recorded for the samples of one op is computed in
one program, since compiling is what a small op costs.  What fails while it is
recorded is known by its sample at once; if the program fails, samples run alone.
"""

from __future__ import annotations

import itertools
import warnings
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

import torsh_fx as tx
from torch_differences import DIFFERENCES, HOMONYMS, LOOSE, NAMES, VALUES_FREE, Difference
from torch_report import Outcome
from torch_values import (
    MISSING,
    OutsideError,
    compare,
    converted,
    described,
    is_floating,
    op_db,
    our_dtype,
    our_tensor,
    tensors_in,
)
from torsh_fx import executor

if not MISSING:
    import torch
    from torch.autograd import forward_ad


class Tier(NamedTuple):
    """How many dtypes and samples in each an op has, and for how many of them each law is checked."""

    dtypes: int
    samples: int
    gradients: int
    doubles: int
    forward_mode: int
    dtypes_with_gradients: tuple[str, ...]


# At most 20 samples an op, its two dtypes together.
CI = Tier(2, 10, 4, 1, 2, ("float64",))
BRIEF = Tier(1, 2, 2, 0, 0, ("float64",))
FULL = Tier(2, 10**6, 10**6, 10**6, 10**6, ("float64", "float32"))


def entry_name(op: Any) -> str:
    return f"{op.name}.{op.variant_test_name}" if op.variant_test_name else str(op.name)


def ours(op: Any) -> Callable[..., Any] | None:
    """Our function for an op of PyTorch: listed, of the same path, or the Tensor method; None if we lack it."""
    if op.name in HOMONYMS:
        return None
    found: Any = tx
    for part in op.name.split("."):
        found = getattr(found, part, None)
    if not callable(found):
        found = getattr(tx.Tensor, op.name, None)
        found = found.fget if isinstance(found, property) else found
    return NAMES.get(entry_name(op), NAMES.get(op.name, found)) if callable(found) else None


def split_by_presence() -> tuple[list[Any], list[str]]:
    """The entries we have a function for, and the names of the others."""
    present = [op for op in op_db if ours(op) is not None]
    return present, sorted({entry_name(op) for op in op_db} - {entry_name(op) for op in present})


# -- one sample ---------------------------------------------------------------------------


class Case:
    """One sample: what PyTorch says, and what we recorded for it."""

    def __init__(self, op: Any, sample: Any, dtype: str, number: int) -> None:
        self.op, self.sample, self.dtype = op, sample, dtype
        self.arguments = (sample.input, list(sample.args), dict(sample.kwargs))
        self.label = f"{dtype} #{number} ({described((sample.input, *sample.args))}; {described(sample.kwargs)})"
        self.problem = ""
        self.law = "forward"
        self.checks: list[tuple[str, Any, Any]] = []  # law, ours, PyTorch's
        seen = {id(t): t for t in tensors_in(self.arguments) if isinstance(t, torch.Tensor)}
        self.operands = [t for t in seen.values() if t.requires_grad]
        self.tensors = seen
        self.mine = {k: converted(t, {}) for k, t in seen.items()}
        converted(self.arguments, self.mine)  # raises OutsideError now
        self.free = VALUES_FREE.get(op.name, lambda _: False)(sample)
        self.rtol = LOOSE[op.name][0] if op.name in LOOSE else None
        # PyTorch checks some ops on a part of their domain only (symmetric matrices): so do we.
        self.wrapper = op.gradcheck_wrapper if self.operands else lambda fn, *a, **k: fn(*a, **k)

    def theirs(self, replaced: dict[int, Any]) -> list[Any]:
        def swap(v: Any) -> Any:
            if isinstance(v, (list, tuple)):
                return type(v)(map(swap, v))
            return replaced.get(id(v), v)

        x, args, kwargs = self.arguments
        out = self.wrapper(self.op, swap(x), *map(swap, args), **{k: swap(v) for k, v in kwargs.items()})
        return tensors_in(self.sample.output_process_fn_grad(out))

    def call(self, mine: dict[int, tx.Tensor]) -> list[Any]:
        x, args, kwargs = converted(self.arguments, mine)
        function = ours(self.op)
        out = self.wrapper(function, x, *args, **kwargs)
        return tensors_in(self.sample.output_process_fn_grad(out))

    def others(self) -> dict[int, tx.Tensor]:
        """Tensors that are not differentiated, as they are now: an op may write them (running statistics)."""
        operands = {id(t) for t in self.operands}
        return {k: converted(t, {}) for k, t in self.tensors.items() if k not in operands}

    def record(self, gradient: bool, double: bool) -> None:
        """Run PyTorch, record ours; the laws' pairs go to ``checks``."""
        self.mine |= self.others()
        known = self.theirs({})
        got = self.call(self.mine)
        self.checks += [("forward", g, k) for g, k in itertools.zip_longest(got, known)]
        if len(got) != len(known) or not gradient or self.free:
            return
        self.law = "gradient"
        operands = self.operands
        pair = self._gradients(known, got, operands, "gradient", double)
        if double and pair is not None:
            self.law = "double backward"
            self._gradients(*pair, operands, "double backward", False)

    def _gradients(self, known: Any, got: Any, operands: list[Any], law: str, again: bool) -> Any:
        flags = [isinstance(k, torch.Tensor) and k.requires_grad for k in known]
        mine = [isinstance(g, tx.Tensor) and g.requires_grad for g in got]
        if law == "gradient" and flags != mine:
            raise AssertionError(f"requires_grad of the results is {mine}, PyTorch's is {flags}")
        chosen = [k for k, flag in enumerate(flags) if flag]
        if not chosen:
            return None
        known, got = [known[k] for k in chosen], [got[k] for k in chosen]
        seeds = [torch.randn(k.shape, dtype=k.dtype) for k in known]
        wanted = torch.autograd.grad(known, operands, seeds, create_graph=True, allow_unused=True)
        alive = [k for k, g in enumerate(got) if g.requires_grad]  # a second derivative that is 0 everywhere
        found: Sequence[Any] = [None] * len(operands)
        if alive:
            found = tx.autograd.grad(
                [got[k] for k in alive],
                [self.mine[id(t)] for t in operands],
                [our_tensor(seeds[k]) for k in alive],
                create_graph=True,
                allow_unused=True,
            )
        for t, g, w in zip(operands, found, wanted, strict=True):
            zero = torch.zeros_like(t, requires_grad=False)
            if g is not None or w is not None:
                self.checks.append(
                    (law, np.zeros(t.shape, our_dtype(t.dtype)) if g is None else g, zero if w is None else w)
                )
        both = [(w, g) for g, w in zip(found, wanted, strict=True) if w is not None and g is not None]
        return ([w for w, _ in both], [g for _, g in both]) if both and again else None

    def tangents(self) -> tuple[list[Any], list[Any]]:
        """Random tangents of the operands and PyTorch's tangents of the results."""
        given = [torch.randn(t.shape, dtype=t.dtype) for t in self.operands]
        with forward_ad.dual_level():
            duals = {id(t): forward_ad.make_dual(t.detach(), d) for t, d in zip(self.operands, given, strict=True)}
            outs = [forward_ad.unpack_dual(o) for o in self.theirs(duals) if is_floating(o)]
        return given, [torch.zeros_like(o.primal) if o.tangent is None else o.tangent for o in outs]

    def settle(self) -> None:
        """Compare what was computed; the first difference is this sample's problem."""
        for law, got, known in self.checks:
            self.law = law
            compare(law, got, known, values=not self.free, loose=self.rtol)


# -- one op -------------------------------------------------------------------------------


def dtypes_of(op: Any) -> list[str]:
    """float64 and float32; int64 and bool for an op that has no floats."""
    for group in (("float64", "float32"), ("int64", "bool")):
        found = [name for name in group if getattr(torch, name) in op.dtypes]
        if found:
            return found
    return []


def chosen(samples: Iterable[Any], most: int) -> list[Any]:
    """The first of each form (parameters, ranks), then the others; small ones before large ones."""
    pool = list(itertools.islice(samples, 10 * most))
    if len(pool) <= most:
        return pool
    seen: set[Any] = set()
    rank = []
    for k, s in enumerate(pool):
        tensors = [t for t in tensors_in([s.input, s.args, s.kwargs]) if isinstance(t, torch.Tensor)]
        form = (tuple((t.dim(), t.dtype) for t in tensors), described(s.kwargs), len(s.args))
        rank.append((form in seen, sum(t.numel() for t in tensors) > 2000, k))
        seen.add(form)
    return [pool[k] for _, _, k in sorted(rank)[:most]]


def run_op(op: Any, tier: Tier) -> Outcome:
    """Every law on the samples of one op."""
    outcome = Outcome(entry_name(op))
    if op.name in LOOSE:
        outcome.remarks.append("gradients to {} only: {}".format(*LOOSE[op.name]))
    cases: list[Case] = []
    for dtype in dtypes_of(op)[: tier.dtypes]:
        with_gradient = op.supports_autograd and dtype in tier.dtypes_with_gradients
        torch.manual_seed(zlib.crc32(outcome.name.encode()))
        here: list[Case] = []
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # PyTorch's deprecations
            samples = chosen(op.sample_inputs("cpu", getattr(torch, dtype), requires_grad=with_gradient), tier.samples)
            for number, sample in enumerate(samples):
                try:
                    here.append(Case(op, sample, dtype, number))
                except OutsideError as why:
                    outcome.outside[str(why)] = outcome.outside.get(str(why), 0) + 1
            for k, case in enumerate(here):
                double = k < tier.doubles and op.supports_gradgrad
                attempt(case, case.record, with_gradient and k < tier.gradients, double)
            if with_gradient and op.supports_forward_ad:
                smooth = [c for c in here if not (c.problem or c.free) and c.operands]
                for part in chunks(smooth[: tier.forward_mode]):
                    forward_mode(part)
        cases += here
    compute(cases)
    for case in cases:
        attempt(case, case.settle)
        if not case.problem:
            for law, _, _ in case.checks:
                outcome.checks[law] += 1
    judge(op, outcome, [(c.sample, c.law, c.label, c.problem) for c in cases], tier)
    return outcome


def attempt(case: Case, step: Callable[..., None], *args: Any) -> None:
    """A step of a sample that has no problem yet; what it raises is its problem."""
    if not case.problem:
        try:
            step(*args)
        except Exception as error:
            case.problem = f"[{case.law}] {type(error).__name__}: {' '.join(str(error).split())[:300]}"


def compute(cases: Sequence[Case]) -> None:
    """See NOTE [one program]."""

    def run(part: Iterable[Case]) -> None:
        executor.run([g._node for c in part for _, g, _ in c.checks if isinstance(g, tx.Tensor)])

    for good in chunks([c for c in cases if not c.problem]):
        try:
            run(good)
        except Exception:
            for case in good:
                attempt(case, run, [case])


def chunks(cases: Sequence[Case], size: int = 40) -> Iterator[Sequence[Case]]:
    """Parts small enough for one program."""
    return (cases[k : k + size] for k in range(0, len(cases), size))


def forward_mode(cases: Sequence[Case]) -> None:
    """``tx.jvp`` of the samples, in one ``tx.jit``."""
    given: list[list[tx.Tensor]] = []
    wanted: list[list[Any]] = []
    part: list[Case] = []
    others: list[dict[int, tx.Tensor]] = []
    for case in cases:
        before = case.others()
        try:
            tangents, known = case.tangents()
        except (RuntimeError, NotImplementedError):  # PyTorch has none for this sample
            continue
        part.append(case)
        others.append(before)
        given.append([our_tensor(t) for t in tangents])
        wanted.append(known)

    def all_of(primals: Any, tangents: Any) -> Any:
        results: list[Any] = []
        for case, held, p, t in zip(part, others, primals, tangents, strict=True):
            results.append([])

            def pushed(case: Case = case, held: Any = held, p: Any = p, t: Any = t, into: Any = results[-1]) -> None:
                def alone(*operands: tx.Tensor) -> list[tx.Tensor]:
                    replaced = {id(o): v for o, v in zip(case.operands, operands, strict=True)}
                    fresh = {k: tx.tensor(v) for k, v in held.items()}  # which an op may write
                    return [o for o in case.call({**fresh, **replaced}) if is_floating(o)]

                into += tx.jvp(alone, tuple(p), tuple(t))[1]

            case.law = "forward mode"
            attempt(case, pushed)
        return results

    if not part:
        return
    primals = [[case.mine[id(t)].detach() for t in case.operands] for case in part]
    for case, got, known in zip(part, tx.jit(all_of)(primals, given), wanted, strict=True):
        case.checks += [("forward mode", g, k) for g, k in itertools.zip_longest(got, known)]


def run_errors(op: Any, tier: Tier) -> Outcome:
    """PyTorch's wrong calls must raise one of our errors."""
    outcome = Outcome(entry_name(op))
    results = []
    if op.error_inputs_func is not None:
        torch.manual_seed(0)
        for number, wrong in enumerate(itertools.islice(op.error_inputs("cpu"), 2 * tier.samples)):
            sample = wrong.sample_input
            given = (sample.input, list(sample.args), dict(sample.kwargs))
            label = f"error #{number} ({described((sample.input, *sample.args))}; {described(sample.kwargs)})"
            try:
                x, args, kwargs = converted(given, {})
            except OutsideError as why:
                outcome.outside[str(why)] = outcome.outside.get(str(why), 0) + 1
                continue
            results.append((sample, "error", label, refused(ours(op), x, args, kwargs, wrong)))
    judge(op, outcome, results, tier)
    return outcome


def refused(function: Any, x: Any, args: Any, kwargs: Any, wrong: Any) -> str:
    try:
        for t in tensors_in(function(x, *args, **kwargs)):
            if isinstance(t, tx.Tensor):
                t.numpy()  # an index that only the device knows
    except tx.TorshError:
        return ""
    except Exception as error:
        return f"raised {type(error).__name__}: {str(error)[:200]} instead of one of our errors"
    return f"raised nothing; PyTorch says {wrong.error_regex[:120]!r}"


def judge(op: Any, outcome: Outcome, results: Sequence[tuple[Any, str, str, str]], tier: Tier) -> None:
    """Sort samples into passed, known differences and failures; a difference that is none is a failure."""
    rows = [d for d in DIFFERENCES if d.op in (op.name, entry_name(op), type(op).__name__)]
    matched: dict[Difference, list[str]] = {}
    for sample, law, label, problem in results:
        row = next((d for d in rows if law in d.laws and d.when(sample)), None)
        if row is not None:
            matched.setdefault(row, []).append(problem)
        if not problem:
            outcome.samples += law != "error"
            outcome.refused += law == "error"
        elif row is not None:
            (outcome.accepts if law == "error" else outcome.differs).setdefault(row.why, []).append(label)
        else:
            outcome.failures.append(f"{label}: {problem}")
    for row, problems in matched.items():
        if tier is FULL and row.op != type(op).__name__ and not any(problems):
            outcome.failures.append(f"the listed difference {row.why!r} is none: every sample it covers passes")
