"""Random programs of reads, views, writes and backward, as Python source that PyTorch and we both run.

A program is drawn as numbers.  What statement a number becomes depends on the
tensors that PyTorch has by then, so a ``Draft`` runs every statement with
PyTorch as it is written down.  The source is what is tested and what is printed.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Sequence
from typing import Any

HEAD = """\
import warnings

import numpy as np
import torch
import torsh_fx as tx

warnings.simplefilter("ignore")


def look(t):
    if t is None:
        return None
    return t.detach().tolist(), str(t.dtype).removeprefix("torch."), t.requires_grad, t.is_leaf


def same(got, want):
    if got is None or want is None or isinstance(want, str):
        return got == want
    close = np.shape(got[0]) == np.shape(want[0]) and np.allclose(got[0], want[0], 2e-5, 2e-5, equal_nan=True)
    return close and got[1:] == want[1:]


def program(lib):
    Error = tx.TorshError if lib is tx else Exception
    seen = {}
"""
TAIL = """\
    return seen


# Here a graph holds values; PyTorch's does if what it saves is a copy.
with torch.autograd.graph.saved_tensors_hooks(lambda t: t.detach().clone(), lambda t: t):
    theirs = program(torch)
with {mode}:
    ours = program(tx)
for what, want in theirs.items():
    assert same(ours[what], want), f"{{what}} is {{ours[what]}}, PyTorch has {{want}}"
"""
START = (
    "a = lib.tensor([[0.5, -1.0, 0.25, 2.0], [1.5, -0.5, 0.75, -2.0], [1.25, -0.25, -1.75, 1.0]], "
    "dtype=lib.float64, requires_grad=True)",
    "b = lib.tensor([1.5, -0.5, 0.25, 1.0], dtype=lib.float64, requires_grad=True)",
    "c = lib.tensor([[0.1, 0.7, -0.3, 1.1], [0.9, -1.3, 0.4, -0.6], [-0.8, 1.6, 0.2, 0.35]], dtype=lib.float64)",
    "n = lib.tensor([[1, 5, 2, 0], [3, 1, 4, 2], [0, 6, 2, 3]])",
    "t0 = a * 1.5",
)

# What PyTorch refuses and we do, since here the graph holds values and every reshape is a view.
OURS_ALONE = re.compile(
    "function that returns multiple views|was created in no_grad mode|refer to a single memory location"
    "|view size is not compatible|source and destination dtypes match"
    "|inplace version of .* is not implemented|more than one element of the written-to tensor"
)


class Choice:
    """A number as a sequence of choices; 0 is the first of each, so that shrinking a number simplifies."""

    def __init__(self, number: int) -> None:
        self.number = number

    def of(self, options: Sequence[Any]) -> Any:
        self.number, k = divmod(self.number, len(options))
        return options[k]

    def below(self, n: int) -> int:
        return int(self.of(range(max(n, 1))))


class Draft:
    """The program so far: its statements, and PyTorch's tensors after them."""

    def __init__(self, torch: Any) -> None:
        self.torch = torch
        self.scope: dict[str, Any] = {"lib": torch}
        self.lines: list[str] = []
        self.names: list[str] = []  # of tensors, the latest last
        self.wide: set[str] = set()  # those whose memory an expand has made one
        self.ended = self.retains = False
        for line in START:
            self.state(line, line.split()[0])

    def tensor(self, c: Choice, fits: Callable[[Any], bool] = lambda t: True) -> str | None:
        """A name of a tensor that fits, the latest first."""
        found = [n for n in reversed(self.names) if fits(self.scope[n])]
        return c.of(found) if found else None

    def new(self) -> str:
        return f"t{sum(n[0] == 't' for n in self.names)}"

    def saving(self) -> Any:
        return self.torch.autograd.graph.saved_tensors_hooks(lambda t: t.detach().clone(), lambda t: t)

    def state(self, line: str, name: str = "", theirs: str = "", under: str = "") -> bool:
        """Write a statement down, which may define ``name``, unless it leads where the libraries part."""
        try:
            with warnings.catch_warnings(), self.saving():
                warnings.simplefilter("ignore")
                exec(f"{under}{theirs or line}", self.scope)
        except Exception as error:
            if not OURS_ALONE.search(str(error)):
                key = f'seen["error {len(self.lines)}"]'
                self.lines += ["try:", f"    {under}{line}", f'    {key} = "none"']
                self.lines += ["except Error:", f'    {key} = "raised"']
            return False
        if not all(map(self._is_tame, [self.scope[n] for n in (*self.names, *([name] if name else []))])):
            self.ended = True
            return False
        if theirs:
            self.lines += ["if lib is tx:", f"    {under}{line}", "else:", f"    {under}{theirs}"]
        else:
            self.lines.append(f"{under}{line}")
        if name and name not in self.names:
            self.names.append(name)
        return True

    def define(self, expression: str, under: str = "", when: Callable[[Any], bool] = lambda t: True) -> None:
        """Write down a new tensor of memory of its own, if PyTorch's is as it should be."""
        name = self.new()
        try:
            with warnings.catch_warnings(), self.saving():
                warnings.simplefilter("ignore")
                value = eval(expression, self.scope)
        except Exception:
            self.state(f"{name} = {expression}", name, under=under)
            return
        if when(value):
            # Results of ours are contiguous; PyTorch's may follow their operands, or hold one element for many.
            laid_out = value.is_contiguous() or value._is_view()
            self.state(f"{name} = " + (expression if laid_out else f"({expression}).contiguous()"), name, under=under)

    def _is_tame(self, t: Any) -> bool:
        try:
            return t.numel() <= 64 and bool(t.isfinite().all()) and bool((t.abs() < 1e6).all())
        except RuntimeError:  # a view that PyTorch gives up when its base is written to
            return False

    def source(self, mode: str) -> str:
        names = [*self.names, *(f"{n}.grad" for n in self.names)]
        seen = [f'seen["{n}"] = look({n})' for n in names]
        return HEAD + "".join(f"    {line}\n" for line in [*self.lines, *seen]) + TAIL.format(mode=mode)


# -- what a statement is made of -----------------------------------------------------------


def basic_index(c: Choice, shape: Sequence[int]) -> str:
    """Integers, slices, ``...`` and None, seldom out of range."""
    entries: list[str] = []
    for extent in shape[: c.below(len(shape)) + 1]:
        first, last = sorted((c.below(extent), c.below(extent)))
        step = c.of((1, 2))
        options = [str(first), f"{first}:{last + 1}", f"{first}::{step}", ":", str(-1 - first), f":-{first + 1}"]
        entries.append(c.of(options) if extent else ":")
    k = c.below(12)
    if k == 1:
        entries.insert(0, "None")
    elif k == 2:
        entries.insert(0, "...")
        entries = entries[: max(1, len(shape))]
    return ", ".join(entries) or "..."


def any_index(c: Choice, draft: Draft, name: str) -> str:
    """Basic indices, lists, index tensors and masks; no element twice."""
    shape = tuple(draft.scope[name].shape)
    kind = c.below(6) if shape and 0 not in shape else 0
    if kind < 2:
        return basic_index(c, shape)
    some = c.of(([0], [0, -1], [-1, 0])) if shape[0] > 1 else [0]
    if kind == 2:
        return f"{some}"
    if kind == 3:
        return f"lib.tensor({some})" + (", " + basic_index(c, shape[1:]) if len(shape) > 1 and c.below(2) else "")
    if kind == 4:
        return f"{name}.detach() > {c.of((0.3, -0.5))}"
    return f":, {[0, shape[1] - 1] if shape[1] > 1 else [0]}" if len(shape) > 1 else f"lib.tensor({some})"


def operand(c: Choice, draft: Draft, shape: tuple[int, ...], apart: str = "") -> str:
    """A number or a tensor that broadcasts to ``shape``, a copy of what shares memory with ``apart``."""

    def fits(t: Any) -> bool:
        try:
            return draft.torch.broadcast_shapes(t.shape, shape) == shape and t.is_floating_point()
        except RuntimeError:
            return False

    name = draft.tensor(c, fits) if c.below(4) else None
    if name is None:
        return str(c.of((0.5, -1.25, 2.0)))
    memory = [draft.scope[n].untyped_storage().data_ptr() for n in (name, apart or name)]
    return f"{name}.clone()" if apart and memory[0] == memory[1] else name


def axis(c: Choice, ndim: int) -> int:
    return c.below(ndim) - c.of((0, ndim)) if ndim else 0


# -- statements ------------------------------------------------------------------------------

READS = (
    "{x} * 2.0",
    "{x}.sin()",
    "{x} * {y}",
    "{x} + {y}",
    "{x}.tanh() - {y}",
    "{x}.clone()",
    "{x}.sum()",
    "{x}.sum(-1) if {x}.ndim else {x}.exp()",
    "{x}[{i}]",
    "lib.where({x} > 0, {x}, {y})",
    "lib.stack([{x}, {x}], 0)",
    "{x}.double().sigmoid()",
    "{x}.float()",
)


def read(c: Choice, draft: Draft, under: str) -> None:
    form = c.of(READS)
    x = draft.tensor(c)
    assert x is not None
    y = operand(c, draft, tuple(draft.scope[x].shape))
    i = any_index(c, draft, x)
    if "{i}" in form and draft.scope[x].requires_grad:
        under = ""  # as of other views
    draft.define(form.format(x=x, y=y, i=i), under)


def view(c: Choice, draft: Draft, under: str) -> None:
    kind = c.below(18)
    x = draft.tensor(c)
    assert x is not None
    if draft.scope[x].requires_grad:
        under = ""  # PyTorch's views made under no_grad say that they require grad, and are leaves
    shape = tuple(draft.scope[x].shape)
    rank, name, theirs = len(shape), draft.new(), ""
    d, e = axis(c, rank), axis(c, rank)
    extent = shape[d] if shape else 1
    k = c.below(extent)
    middle = next((m for m in (2, 3) if draft.scope[x].numel() % m == 0), 1)
    forms: tuple[Any, ...] = (
        lambda: f"[{basic_index(c, shape)}]",
        lambda: f".transpose({d}, {e})",
        lambda: ".detach()",
        lambda: f".narrow({d}, {k}, {extent - k})",
        lambda: f".select({d}, {k})",
        lambda: f".view({middle}, -1)",
        lambda: ".flatten()",
        lambda: f".unsqueeze({d})",
        lambda: ".squeeze()",
        lambda: f".permute({', '.join(map(str, reversed(range(rank))))})" if rank else ".t()",
        lambda: ".mT" if rank > 1 else ".t()",
        lambda: f".expand(2, {', '.join(['-1'] * rank)})" if rank else ".expand(2)",
        lambda: f".diagonal({c.of((0, 1, -1))})",
        lambda: ".data",
        lambda: f".reshape(-1, {middle})",
        lambda: f".chunk(2, {d})[0]",
        lambda: f".unbind({d})[{k}]",
        lambda: f".split({max(extent - k, 1)}, {d})[-1]",
    )
    form = forms[kind]()
    if shape and ".chunk" in form:
        theirs = f".narrow({d}, 0, {(extent + 1) // 2})"
    elif shape and ".unbind" in form:
        theirs = f".select({d}, {k})"
    elif shape and ".split" in form:
        size = max(extent - k, 1)
        start = (max(extent - 1, 0) // size) * size
        theirs = f".narrow({d}, {start}, {extent - start})"
    made = draft.state(f"{name} = {x}{form}", name, f"{name} = {x}{theirs}" if theirs else "", under)
    if made and (x in draft.wide or "expand" in form):
        draft.wide.add(name)


# In-place forms: {y} broadcasts to {x}, {d} is an axis, {k} the extent along it; values stay inside domains.
WRITES = (
    "{x} += {y}",
    "{x} *= {y}",
    "{x}.mul_({y})",
    "{x}.add_({y}, alpha=2)",
    "{x}.copy_({z})",
    "{x}.zero_()",
    "{x}.fill_({n})",
    "{x} -= {y}",
    "{x} /= 1.5",
    "{x}.sub_({y}, alpha=0.5)",
    "{x}.div_(2.0)",
    "{x}.tanh_().pow_(2)",
    "{x}.clamp_(-0.9, 1.1)",
    "{x}.clamp_min_(-1.1)",
    "{x}.clamp_max_(1.3)",
    "{x}.neg_()",
    "{x}.tanh_().exp_()",
    "{x}.square_().add_(0.5).log_()",
    "{x}.square_().add_(0.5).sqrt_()",
    "{x}.square_().add_(0.5).rsqrt_()",
    "{x}.square_().add_(0.5).reciprocal_()",
    "{x}.abs_()",
    "{x}.relu_()",
    "{x}.sigmoid_()",
    "{x}.sin_()",
    "{x}.cos_()",
    "{x}.mul_(1.37).floor_()",
    "{x}.mul_(1.37).ceil_()",
    "{x}.mul_(1.37).round_()",
    "{x}.mul_(1.37).trunc_()",
    "{x}.mul_(1.37).frac_()",
    "{x}.mul_(1.37).remainder_(0.77)",
    "{x}.mul_(1.37).fmod_(0.77)",
    "{x}.square_().log1p_()",
    "{x}.tanh_().expm1_()",
    "{x}.tanh_().exp2_()",
    "{x}.erf_()",
    "{x}.erfc_()",
    "{x}.tanh_().mul_(0.9).erfinv_()",
    "{x}.asinh_()",
    "{x}.square_().add_(1.5).acosh_()",
    "{x}.tanh_().mul_(0.9).atanh_()",
    "{x}.sinc_()",
    "{x}.square_().add_(0.5).atan2_({t})",
    "{x}.square_().add_(0.5).hypot_({t})",
    "{x}.xlogy_(lib.full({s}, 1.5, dtype=lib.float64))",
    "{x}.square_().add_(0.5).copysign_({t})",
    "{x}.nan_to_num_()",
    "{x}.lerp_({t}, 0.25)",
    "{x}.addcmul_({t}, {t}, value=0.5)",
    "{x}.addcdiv_({t}, {t}.detach().square() + 1.0, value=0.5)",
    "{x}.masked_fill_({x}.detach() > 0.4, {n})",
    "{x}.masked_scatter_({x}.detach() > 0.4, {t}.detach().reshape(-1).repeat(2))",
    "{x}.index_add_({d}, lib.tensor([0, 0]), {r})",
    "{x}.index_copy_({d}, lib.tensor([{k} - 1]), {p})",
    "{x}.index_fill_({d}, lib.tensor([0]), {n})",
    "{x}.index_put_((lib.tensor([0]),), {v})",
    "{x}.index_put_((lib.tensor([0, 0]),), {v}, accumulate=True)",
    "{x}.scatter_({d}, lib.zeros_like({p}, dtype=lib.int64), {p})",
    "{x}.scatter_({d}, lib.zeros_like({p}, dtype=lib.int64), {n})",
    "{x}.scatter_add_({d}, lib.zeros_like({r}, dtype=lib.int64), {r})",
    "{x}.scatter_reduce_({d}, lib.zeros_like({r}, dtype=lib.int64), {r}, 'sum')",
    "{x}.cumsum_({d})",
    "{x}.tanh_().cumprod_({d})",
    "{x}.tril_()",
    "{x}.triu_(1)",
    "{x}.tanh_().mul_(0.9).acos_()",
    "{x}.tanh_().mul_(0.9).asin_()",
    "{x}.atan_()",
    "{x}.tanh_().sinh_()",
    "{x}.tanh_().cosh_()",
    "{x}.tanh_().tan_()",
    "{x}.square_().add_(0.5).log2_()",
    "{x}.square_().add_(0.5).log10_()",
    "{x}.mul_(1.37).sign_()",
    "{x}.deg2rad_()",
    "{x}.tanh_().rad2deg_()",
    "n.floor_divide_(2)",
    "n.logical_and_(lib.tensor(7))",
    "n.logical_or_(lib.tensor(0))",
    "n.logical_xor_(lib.tensor(1))",
    "n.logical_not_()",
    "n.eq_(2)",
    "n.ne_(lib.tensor(1))",
    "n.lt_(2)",
    "n.le_(lib.tensor(1))",
    "n.gt_(0)",
    "n.ge_(lib.tensor(2))",
    "n.bitwise_not_()",
    "n.bitwise_and_(lib.tensor(7))",
    "n.bitwise_or_(lib.tensor(2))",
    "n.bitwise_xor_(lib.tensor(5))",
    "n.bitwise_left_shift_(lib.tensor(1))",
    "n.bitwise_right_shift_(lib.tensor(1))",
    "{x}.addmm_({m}, {m}.mT, beta=0.5)",
    "{x}.addr_({v}.reshape(-1), {v}.reshape(-1))",
    "{x}.addmv_({m}, {m}[0])",
    "{x}.addbmm_({m}.unsqueeze(0), {m}.mT.unsqueeze(0))",
    "{x}.baddbmm_({m}.unsqueeze(0), {m}.mT.unsqueeze(0))",
)


def write(c: Choice, draft: Draft, under: str) -> None:
    form = c.of(WRITES)
    x = draft.tensor(c)
    if x is None or (x in draft.wide and "add_" not in form):
        return
    t = draft.scope[x]
    shape = tuple(t.shape)
    d = axis(c, t.ndim)
    extent = shape[d] if shape else 1
    y = operand(c, draft, shape, x)
    z = f"{x} * 0.5" if x == y else y
    tensor = y if y.isidentifier() or ".clone" in y else f"lib.full({list(shape)}, {y}, dtype=lib.float64)"
    full = f"{tensor}.expand({', '.join(map(str, shape))})" if shape else f"{tensor}.clone()"
    parts = {
        **{"x": x, "y": y, "z": z, "n": c.of((0.25, -2.0)), "t": tensor, "d": d, "k": extent, "s": list(shape)},
        "p": f"{full}.narrow({d}, 0, 1)" if shape else full,
        "r": f"{full}.narrow({d}, 0, 1).repeat_interleave(2, {d})" if shape else full,
        "v": f"{full}[0]" if shape else full,
        "m": full,
    }
    draft.state(form.format(**parts), under=under)


def set_part(c: Choice, draft: Draft, under: str) -> None:
    """``x[index] = value`` and ``x[index] += value``."""
    x = draft.tensor(c)
    assert x is not None
    if x in draft.wide:
        return
    sign = c.of(("=", "+=", "*="))
    index = any_index(c, draft, x)
    try:
        part = tuple(eval(f"{x}[{index}]", draft.scope).shape)
    except (IndexError, RuntimeError):
        part = ()
    draft.state(f"{x}[{index}] {sign} {operand(c, draft, part, x)}", under=under)


def backward(c: Choice, draft: Draft, under: str) -> None:
    kind = c.below(8)
    x = draft.tensor(c, lambda t: t.requires_grad or kind == 7)
    leaf = c.of(("a", "b"))
    if x is None:
        return
    if kind < 3:
        draft.state(f"({x} * {c.of((1.5, x))}).sum().backward(retain_graph=True)")
    elif kind == 3:
        draft.state(f"{x}.backward(lib.ones_like({x}) * 0.5, retain_graph=True)")
    elif kind == 4:
        total = f"({x} * {x}).sin().sum() + {leaf}.sum()"
        grad = f"lib.autograd.grad({total}, [{leaf}], create_graph=True)[0]"
        if not draft.retains:  # to whose gradients PyTorch's grad adds, and ours does not
            draft.define(grad, when=lambda t: bool(t.requires_grad))
    elif kind == 5:
        draft.retains = True
        draft.state(f"{x}.retain_grad()")
    elif kind == 6:
        draft.state(f"{leaf}.grad = None")
    else:
        draft.state(f"{x}.sum().backward(retain_graph=True)")


def alias(c: Choice, draft: Draft, under: str) -> None:
    """What changes values behind the graph's back, and a gradient that is written."""
    x = draft.tensor(c, lambda t: t.is_floating_point())
    if x is None or x in draft.wide:
        return
    leaf = c.of(("a", "b"))
    name = draft.new()
    forms = (
        f"{x}.data.mul_(0.5)",
        f"{x}.detach().add_(1.0)",
        f"{leaf}.data[0] = 0.75",
        f"seen['read {len(draft.lines)}'] = look({x})",
        f"{leaf}.detach()[..., 1:].mul_(2.0)",
    )
    if c.below(2) and draft.scope[leaf].grad is not None:
        if c.below(2):
            draft.state(f"{leaf}.grad.mul_(0.5)")
        else:
            draft.state(f"{name} = {leaf}.grad", name)
    else:
        draft.scope.setdefault("seen", {})
        draft.scope.setdefault("look", lambda t: None)
        draft.state(c.of(forms))


def wrong(c: Choice, draft: Draft, under: str) -> None:
    """Calls that PyTorch refuses; both must go on as if nothing had been."""
    x = draft.tensor(c)
    form = c.of(
        (
            "{x}.add_(lib.ones(5, 7))",
            "{x}[9] = 1.0",
            "{x}[..., 0] = lib.ones(2, 5, 9)",
            "{x}.unsqueeze(0).expand(3, *{x}.shape).add_(1.0)",
            "{x}.narrow(0, 2, 9)",
            "{x}.view(11, 13)",
            "{x}.index_add_(0, lib.tensor([99]), {x}[:1])",
            "a.add_(1.0)",
            "a[0].mul_(2.0)",
            "n.add_(0.5)",
            "{x}.copy_(lib.ones(5, 7))",
            "{x}.masked_fill_(lib.ones(3, 5, 7) > 0, 1.0)",
            "n.requires_grad_()",
        )
    )
    draft.state(form.format(x=x))


KINDS: dict[str, Callable[[Choice, Draft, str], None]] = {
    "read": read,
    "view": view,
    "write": write,
    "set": set_part,
    "backward": backward,
    "alias": alias,
    "wrong": wrong,
}


def drafted(torch: Any, steps: Sequence[tuple[str, int]], mode: str) -> str:
    """The source of the program that ``steps`` are, with a backward of everything at its end."""
    draft = Draft(torch)
    for kind, number in steps:
        c = Choice(number)
        under = "with lib.no_grad(): " if c.below(8) == 7 else ""
        KINDS[kind](c, draft, under)
        if draft.ended:
            break
    floats = [n for n in draft.names if draft.scope[n].requires_grad]
    total = " + ".join(f"({n} * {1 + k / 4}).sum()" for k, n in enumerate(floats))
    draft.state(f"({total}).backward()")
    return draft.source(mode)
