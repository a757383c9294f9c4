"""The same line of code on PyTorch and here: values and gradients, in both precisions, at ties and zeros too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import torsh_fx as tx
from tolerances import FORWARD, GRADIENT

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
NAN, INF = float("nan"), float("inf")


class Same(NamedTuple):
    """A line that must give the same on both, with the arrays it is given."""

    what: str
    line: Callable[..., Any]
    args: tuple[Any, ...]
    loose: float = 1.0  # times the tolerance, where a result is much smaller than what it is made of


def v(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed + 10 * len(shape) + sum(shape)).normal(size=shape)


def spd(n: int, *batch: int) -> Any:
    half = v(*batch, n, n, seed=7)
    return half @ np.swapaxes(half, -1, -2) + np.diag(np.arange(1.0, n + 1))


X, Y = v(3, 4), v(3, 4, seed=1)
TIES = np.array([[1.0, 3.0, 3.0, 2.0], [0.0, 0.0, -1.0, 0.0], [2.0, 2.0, 2.0, 2.0]])
ZEROS = np.array([[1.0, 0.0, 3.0, 2.0], [0.0, 2.0, 0.0, 1.0], [0.0, 0.0, 0.0, 0.0], [1.0, -2.0, 3.0, 4.0]])
HOLES = np.array([[1.0, NAN, 3.0], [NAN, NAN, NAN], [2.0, 5.0, -1.0]])
I = np.array([[0, 2, 1, 0], [2, 0, 0, 1]])  # noqa: E741
J = np.array([2, 0])
IMAGE = v(2, 3, 7, 6)
M = v(3, 4) > 0


def same(what: str, *args: Any, loose: float = 1.0) -> Callable[[Callable[..., Any]], None]:
    def add(line: Callable[..., Any]) -> None:
        TABLE.append(Same(what, line, args, loose))

    return add


TABLE: list[Same] = []


def lines(*args: Any, **named: Callable[..., Any]) -> None:
    TABLE.extend(Same(name, line, args) for name, line in named.items())


for _name, _x in (("x", X), ("ties", TIES), ("zeros", ZEROS)):
    lines(
        _x,
        **{
            f"prod {_name}": lambda m, x: m.prod(x),
            f"prod dim {_name}": lambda m, x: m.prod(x, 1, keepdim=True),
            f"cumsum {_name}": lambda m, x: m.cumsum(x, 0),
            f"cumprod {_name}": lambda m, x: m.cumprod(x, -1),
            f"logcumsumexp {_name}": lambda m, x: x.logcumsumexp(1),
            f"cummax {_name}": lambda m, x: m.cummax(x, 1),
            f"cummin {_name}": lambda m, x: x.cummin(dim=0),
            f"sort {_name}": lambda m, x: m.sort(x, dim=1, stable=True),
            f"sort descending {_name}": lambda m, x: m.sort(x, dim=1, descending=True, stable=True),
            f"median {_name}": lambda m, x: m.median(x),
            f"median of numbers {_name}": lambda m, x: m.nanmedian(x),
            f"max {_name}": lambda m, x: m.max(x),
            f"max dim {_name}": lambda m, x: m.max(x, 1),
            f"min dim {_name}": lambda m, x: m.min(x, dim=0, keepdim=True),
            f"amax {_name}": lambda m, x: m.amax(x, (0, 1)),
            f"aminmax {_name}": lambda m, x: m.aminmax(x),
            f"aminmax dim {_name}": lambda m, x: m.aminmax(x, dim=1, keepdim=True),
            f"var {_name}": lambda m, x: m.var(x, 1),
            f"var biased {_name}": lambda m, x: m.var(x, 1, False, True),
            f"var correction {_name}": lambda m, x: x.var(dim=(0, 1), correction=2),
            f"std {_name}": lambda m, x: x.std(1),
            f"std unbiased {_name}": lambda m, x: x.std(unbiased=False),
            f"std bool {_name}": lambda m, x: m.std(x, True),
            f"var_mean {_name}": lambda m, x: m.var_mean(x, 0, keepdim=True),
            f"std_mean {_name}": lambda m, x: m.std_mean(x, (0, 1)),
            f"count_nonzero {_name}": lambda m, x: (m.count_nonzero(x), m.count_nonzero(x, 1), x.count_nonzero()),
            f"norm {_name}": lambda m, x: m.norm(x),
            f"norm dim {_name}": lambda m, x: m.norm(x, 2, 1, True),
            f"norm nuc {_name}": lambda m, x: m.linalg.matrix_norm(x, "fro"),
            f"norm method {_name}": lambda m, x: x.norm(dim=0),
        },
    )
for _ord in (0, 0.5, 1, 1.5, 2, 3, INF, -INF, -1):
    for _name, _x in (("x", X), ("ties", TIES), ("zeros", np.zeros((2, 3)))):
        if _name != "zeros" or _ord not in (-1, 0.5):  # PyTorch's are NaN there
            TABLE.append(
                Same(f"norm {_ord} {_name}", lambda m, x, p=_ord: m.linalg.vector_norm(x, p, 1, keepdim=True), (_x,))
            )
lines(
    X,
    **{
        "topk": lambda m, x: m.topk(x, 2),
        "topk smallest": lambda m, x: x.topk(3, dim=0, largest=False),
        "kthvalue": lambda m, x: m.kthvalue(x, 2),
        "kthvalue dim": lambda m, x: x.kthvalue(3, 0, True),
        "median dim": lambda m, x: m.median(x, 1),
        "nanmedian dim": lambda m, x: m.nanmedian(x, 0, keepdim=True),
        "argsort": lambda m, x: m.argsort(x, 1, True),
        "mode": lambda m, x: m.mode(x)[0],
        "roll": lambda m, x: m.roll(x, (1, -2), (0, 1)),
        "roll flat": lambda m, x: x.roll(5),
        "fliplr": lambda m, x: m.fliplr(x),
        "flipud": lambda m, x: m.flipud(x),
        "rot90": lambda m, x: (m.rot90(x), m.rot90(x, 2), m.rot90(x, -1, (1, 0)), m.rot90(x, 4)),
        "tile": lambda m, x: (m.tile(x, (2,)), x.tile(2, 1, 2)),
        "repeat": lambda m, x: x.repeat(2, 1, 3),
        "repeat_interleave": lambda m, x: (m.repeat_interleave(x, 2), x.repeat_interleave(3, dim=1)),
        "repeat_interleave by tensor": lambda m, x: m.repeat_interleave(x, m.tensor([2, 0, 1]), dim=0),
        "tril": lambda m, x: (m.tril(x), x.tril(1), m.tril(x, diagonal=-1)),
        "triu": lambda m, x: (m.triu(x), x.triu(1), m.triu(x, diagonal=-1)),
        "diag": lambda m, x: (m.diag(x), m.diag(x, 1), m.diag(x[0]), m.diag(x[1], -2)),
        "diagonal": lambda m, x: (m.diagonal(x), x.diagonal(1), m.diagonal(x, offset=-1, dim1=1, dim2=0)),
        "diag_embed": lambda m, x: (m.diag_embed(x), m.diag_embed(x, 1, 0, 2)),
        "trace": lambda m, x: m.trace(x),
        "take": lambda m, x: m.take(x, m.tensor([[0, 5], [-1, 5]])),
        "masked_fill": lambda m, x: x.masked_fill(x > 0, 2.0),
        "masked_select": lambda m, x: m.masked_select(x, x > 0),
        "index_fill": lambda m, x: x.index_fill(1, m.tensor([0, 2]), 7.0),
        "index_select": lambda m, x: m.index_select(x, 1, m.tensor([3, 0, 3])),
        "take_along_dim": lambda m, x: m.take_along_dim(x, m.argsort(x, 1), dim=1),
        "take_along_dim broadcast": lambda m, x: m.take_along_dim(x, m.tensor([[0, 3]]), 1),
        "take_along_dim flat": lambda m, x: m.take_along_dim(x, m.tensor([0, 7])),
        "scatter value": lambda m, x: m.scatter(x, 1, m.tensor([[0], [2], [1]]), 5.0),
        "nonzero": lambda m, x: (m.nonzero(x > 0), *m.nonzero(x > 0, as_tuple=True), m.argwhere(x > 0)),
        "histc": lambda m, x: m.histc(x.detach(), 4, min=-1, max=1),
        "matrix_power": lambda m, x: (m.matrix_power(x[:, :3], 3), m.linalg.matrix_power(x[:, :3], 0)),
        "meshgrid": lambda m, x: (*m.meshgrid(x[0], x[1], indexing="ij"), *m.meshgrid(x[0], x[1, :2], indexing="xy")),
        "pinv": lambda m, x: (m.linalg.pinv(x), m.pinverse(x.T)),
        "svdvals": lambda m, x: m.linalg.svdvals(x),
        "matrix_rank": lambda m, x: m.linalg.matrix_rank(x.detach()),
        "einsum diagonal": lambda m, x: (m.einsum("ii->i", x[:, :3]), m.einsum("ii", x[:, :3]), m.einsum("ij->ji", x)),
        "einsum sums": lambda m, x: (m.einsum("ij->j", x), m.einsum("ij->", x), m.einsum("...j->...", x)),
        "pad": lambda m, x: (m.nn.functional.pad(x, (1, 2)), m.nn.functional.pad(x, (-1, 2, 0, 1), value=3.0)),
        "pad reflect": lambda m, x: m.nn.functional.pad(x, (2, 3), mode="reflect"),
        "pad replicate": lambda m, x: m.nn.functional.pad(x, (2, 5), "replicate"),
        "pad circular": lambda m, x: m.nn.functional.pad(x, (2, 4), "circular"),
        "layer_norm": lambda m, x: m.nn.functional.layer_norm(x, (4,)),
        "rms_norm": lambda m, x: (m.nn.functional.rms_norm(x, (4,)), m.nn.functional.rms_norm(x, [3, 4], eps=0.1)),
        "batch_norm": lambda m, x: m.nn.functional.batch_norm(x, None, None, training=True),
        "group_norm": lambda m, x: m.nn.functional.group_norm(x, 2),
        "unique": lambda m, x: m.unique(m.tensor([3, 1, 3, 2]), return_inverse=True, return_counts=True),
        "bincount": lambda m, x: (m.bincount(m.tensor([1, 3, 1])), m.bincount(m.tensor([1, 3]), minlength=6)),
        "bincount weights": lambda m, x: m.bincount(m.tensor([1, 3, 1, 0]), x[0].detach()),
        "searchsorted": lambda m, x: m.searchsorted(m.sort(x.detach(), 1)[0], x.detach(), right=True),
        "bucketize": lambda m, x: m.bucketize(x.detach(), m.sort(x.detach()[0])[0]),
        "prod of integers": lambda m, x: (m.prod(m.tensor([2, 3])), m.cumsum(m.tensor([True, True]), 0)),
        "norms": lambda m, x: [m.linalg.matrix_norm(x, p) for p in ("fro", "nuc", INF, -INF, 1, -1, 2, -2)],
        "norm of three axes": lambda m, x: m.linalg.norm(x.reshape(3, 2, 2), dim=(0, 2), ord=1, keepdim=True),
        "linalg.norm": lambda m, x: (m.linalg.norm(x), m.linalg.norm(x, 1), m.linalg.norm(x, 3, dim=1)),
    },
)
lines(
    HOLES,
    **{
        "nansum": lambda m, x: (m.nansum(x), m.nansum(x, 1, True)),
        "nanmean": lambda m, x: x[[0, 2]].nanmean(1),
        "nanmedian holes": lambda m, x: m.nanmedian(x, 1)[0][[0, 2]],
        "nanmedian all": lambda m, x: m.nanmedian(x),
        "median holes": lambda m, x: m.median(x, 1)[0],
        "sort holes": lambda m, x: m.sort(x, dim=1, stable=True),
        "cummax holes": lambda m, x: m.cummax(x, 1),
    },
)
lines(
    X,
    Y,
    **{
        "mm": lambda m, x, y: (m.mm(x, y.T), m.mv(x, y[0]), m.dot(x[0], y[1]), m.outer(x[0], y[:, 1])),
        "inner": lambda m, x, y: (m.inner(x, y), m.inner(x[0, 0], y)),
        "vecdot": lambda m, x, y: m.linalg.vecdot(x, y, dim=0),
        "cross": lambda m, x, y: (m.cross(x, y, dim=0), m.linalg.cross(x.T, y.T)),
        "kron": lambda m, x, y: (m.kron(x, y), m.kron(x, y[0])),
        "tensordot": lambda m, x, y: (m.tensordot(x, y.T, 1), m.tensordot(x, y, dims=([0, 1], [0, 1]))),
        "addmm": lambda m, x, y: (m.addmm(x[:, :3], x, y.T, beta=0.5, alpha=2), m.addmm(x[0, :3], x, y.T)),
        "addmv": lambda m, x, y: m.addmv(x[:, 0], x, y[0], alpha=3.0),
        "addr": lambda m, x, y: m.addr(x, y[:, 0], y[1], beta=2),
        "bmm": lambda m, x, y: m.bmm(x.reshape(3, 2, 2), y.reshape(3, 2, 2)),
        "baddbmm": lambda m, x, y: m.baddbmm(x[0, 0], x.reshape(3, 2, 2), y.reshape(3, 2, 2), beta=2),
        "addbmm": lambda m, x, y: m.addbmm(x[0, :2], x.reshape(3, 2, 2), y.reshape(3, 2, 2)),
        "cdist": lambda m, x, y: (m.cdist(x, y), m.cdist(x, y, p=1.0), m.cdist(x, y, 3.0)),
        "einsum mm": lambda m, x, y: (m.einsum("ij,kj->ik", x, y), m.einsum("ij,ij->i", x, y), m.einsum("ij,ij", x, y)),
        "einsum outer": lambda m, x, y: (m.einsum("ij,kl->iljk", x, y), m.einsum("ij,kl->ik", x, y)),
        "einsum three": lambda m, x, y: m.einsum("ij,kj,kl->il", x, y, x),
        "einsum dots": lambda m, x, y: m.einsum("...i,...i->...", x.reshape(3, 2, 2), y.reshape(3, 2, 2)),
        "einsum broadcast": lambda m, x, y: m.einsum("...ij,...jk->...ik", x.reshape(3, 2, 2), y[0].reshape(2, 2)),
        "where": lambda m, x, y: m.where(x > 0, x, y),
        "scatter": lambda m, x, y: m.scatter(x, 0, m.tensor([[0, 2, 1, 0], [2, 0, 0, 1]]), y[:2]),
        "scatter_add": lambda m, x, y: x.scatter_add(1, m.tensor([[0, 2, 0], [2, 2, 2]]), y[:2, :3]),
        "index_add": lambda m, x, y: m.index_add(x, 0, m.tensor([2, 2]), y[:2], alpha=2),
        "index_copy": lambda m, x, y: x.index_copy(1, m.tensor([2, 0]), y[:, :2]),
        "index_put": lambda m, x, y: m.index_put(x, (m.tensor([0, 2]), m.tensor([1, 1])), y[0, :2]),
        "index_put add": lambda m, x, y: x.index_put((m.tensor([0, 0]),), y[:2], accumulate=True),
        "masked_scatter": lambda m, x, y: x.masked_scatter(x > 0, y),
        "solve": lambda m, x, y: (m.linalg.solve(x[:, :3], y), m.linalg.solve(x[:, :3], y[:, 0])),
        "solve right": lambda m, x, y: m.linalg.solve(x[:, :3], y[:2, :3], left=False),
        "solve_triangular": lambda m, x, y: (
            m.linalg.solve_triangular(x[:, :3], y, upper=True),
            m.linalg.solve_triangular(x[:, :3], y, upper=False, unitriangular=True),
            m.linalg.solve_triangular(x[:, :3], y[:, :3], upper=False, left=False),
        ),
        "lstsq": lambda m, x, y: m.linalg.lstsq(x.T, y.T)[0],
        "layer_norm affine": lambda m, x, y: m.nn.functional.layer_norm(x, [4], y[0], y[1], 1e-3),
        "group_norm affine": lambda m, x, y: m.nn.functional.group_norm(x, 2, y[0], y[1]),
        "batch_norm eval": lambda m, x, y: m.nn.functional.batch_norm(
            x, y[0].detach(), y[1].detach() ** 2, y[1], y[2], eps=0.1
        ),
    },
)
for _reduce in ("sum", "prod", "mean", "amax", "amin"):
    for _self in (True, False):
        for _name, _x in (("x", X), ("ties", TIES), ("zeros", ZEROS)):
            TABLE.append(
                Same(
                    f"scatter_reduce {_reduce} {_self} {_name}",
                    lambda m, x, y, r=_reduce, s=_self: m.scatter_reduce(
                        x, 0, m.tensor([[0, 2, 1, 0], [2, 2, 1, 1]]), y, r, include_self=s
                    ),
                    (_x, _x[1:3] + (0.0 if _self else 0.25)),  # PyTorch counts x's ties even where x is left out
                )
            )
for _name, _line in {
    "max_pool2d": lambda m, F, x: F.max_pool2d(x, 2),
    "max_pool2d more": lambda m, F, x: F.max_pool2d(x, (3, 2), stride=(2, 1), padding=1, dilation=(2, 1)),
    "max_pool2d ceil": lambda m, F, x: F.max_pool2d(x, 3, 2, padding=1, ceil_mode=True),
    "max_pool2d indices": lambda m, F, x: F.max_pool2d(x, 3, 2, 1, return_indices=True),
    "max_pool1d": lambda m, F, x: F.max_pool1d(x[0], 3, 1, 1),
    "max_pool3d": lambda m, F, x: F.max_pool3d(x, 2, return_indices=True),
    "avg_pool2d": lambda m, F, x: F.avg_pool2d(x, 2),
    "avg_pool2d more": lambda m, F, x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False),
    "avg_pool2d ceil": lambda m, F, x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True),
    "avg_pool2d divisor": lambda m, F, x: F.avg_pool2d(x, (2, 3), divisor_override=5),
    "avg_pool1d": lambda m, F, x: F.avg_pool1d(x[0], 3, 2, 1, True),
    "avg_pool3d": lambda m, F, x: F.avg_pool3d(x, (2, 3, 2), 1),
    "adaptive_avg_pool2d": lambda m, F, x: (F.adaptive_avg_pool2d(x, (3, 4)), F.adaptive_avg_pool2d(x, (None, 1))),
    "adaptive_avg_pool1d": lambda m, F, x: F.adaptive_avg_pool1d(x[0], 4),
    "adaptive_max_pool2d": lambda m, F, x: F.adaptive_max_pool2d(x, (3, 4), return_indices=True),
    "adaptive_max_pool1d": lambda m, F, x: F.adaptive_max_pool1d(x[0], 4),
    "fold": lambda m, F, x: F.fold(F.unfold(x, (2, 3), padding=1, stride=2), (7, 6), (2, 3), padding=1, stride=2),
    "pad image": lambda m, F, x: (F.pad(x, (1, 2, 3, 0), "reflect"), F.pad(x, (1, 2, 3, 0), "circular")),
    "nearest": lambda m, F, x: (F.interpolate(x, scale_factor=2), F.interpolate(x, size=(3, 11))),
    "nearest-exact": lambda m, F, x: F.interpolate(x, size=(3, 11), mode="nearest-exact"),
    "bilinear": lambda m, F, x: F.interpolate(x, size=(5, 9), mode="bilinear"),
    "bilinear corners": lambda m, F, x: F.interpolate(x, scale_factor=1.5, mode="bilinear", align_corners=True),
    "instance_norm": lambda m, F, x: F.instance_norm(x),
    "batch_norm image": lambda m, F, x: F.batch_norm(x, None, None, x[0, :, 0, 0], x[1, :, 0, 0], True),
    "group_norm image": lambda m, F, x: F.group_norm(x, 3),
}.items():
    for _kind, _x in (("", IMAGE), (" ties", np.round(IMAGE))):
        TABLE.append(Same(_name + _kind, lambda m, x, f=_line: f(m, m.nn.functional, x), (_x,)))
SQUARES = {
    "inv": lambda m, x: (m.linalg.inv(x), m.inverse(x)),
    "det": lambda m, x: (m.det(x), m.linalg.det(x)),
    "slogdet": lambda m, x: m.linalg.slogdet(x),
    "logdet": lambda m, x: m.logdet(m.linalg.matrix_power(x, 2)),
    "cholesky": lambda m, x: m.linalg.cholesky(x @ x.mT + m.eye(3, dtype=x.dtype)),
    "cholesky upper": lambda m, x: m.linalg.cholesky(x @ x.mT + m.eye(3, dtype=x.dtype), upper=True),
    "eigh": lambda m, x: absolute(m.linalg.eigh(x @ x.mT)),
    "eigvalsh": lambda m, x: m.linalg.eigvalsh(x + x.mT),
    "svd": lambda m, x: absolute(m.linalg.svd(x)),
    "svd reduced": lambda m, x: absolute(m.linalg.svd(x[..., :2], full_matrices=False)),
    "svd full": lambda m, x: (m.linalg.svd(x[..., :2, :])[1], absolute(m.linalg.svd(x[..., :2, :]))[0]),
    "qr": lambda m, x: absolute(m.linalg.qr(x)),
    "qr tall": lambda m, x: absolute(m.linalg.qr(x[..., :2])),
    "qr wide": lambda m, x: absolute(m.linalg.qr(x[..., :2, :], mode="complete")),
    "qr r": lambda m, x: m.linalg.qr(x.detach(), "r")[1].abs(),
    "matrix_power": lambda m, x: m.linalg.matrix_power(x, -2),
    "diagonal": lambda m, x: m.linalg.diagonal(x, offset=1),
}


def absolute(parts: Any) -> Any:
    """Vectors are free up to a sign."""
    return tuple(p.abs() for p in parts)


for _name, _line in SQUARES.items():
    TABLE.append(Same(_name, _line, (v(3, 3) + 2 * np.eye(3),), 10.0))
    TABLE.append(Same(f"{_name} batch", _line, (v(2, 3, 3) + 2 * np.eye(3),), 10.0))


def flat(out: Any) -> list[Any]:
    return [part for one in out for part in flat(one)] if isinstance(out, (tuple, list)) else [out]


# One program for many lines: each has leaves of its own, and all go backward together.
CHUNK = 30
CHUNKS = [TABLE[k : k + CHUNK] for k in range(0, len(TABLE), CHUNK)]


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("cases", CHUNKS, ids=[f"{c[0].what} to {c[-1].what}" for c in CHUNKS])
def test_same_as_pytorch(cases: list[Same], dtype: str, full: bool) -> None:
    if dtype == "float32" and CHUNKS.index(cases) % 3 and not full:
        pytest.skip("float32 of every third part only; all of it with --full")
    total, runs = tx.tensor(0.0, dtype=dtype), []
    for case in cases:
        arrays = [a.astype(dtype) for a in case.args]
        ours = [tx.tensor(a, requires_grad=True) for a in arrays]
        theirs = [torch.tensor(a, requires_grad=True) for a in arrays]
        found, want = flat(case.line(tx, *ours)), flat(case.line(torch, *theirs))
        assert len(found) == len(want), case.what
        reference = torch.tensor(0.0, dtype=getattr(torch, dtype))
        for k, (mine, his) in enumerate(zip(found, want, strict=True)):
            assert mine.shape == tuple(his.shape), f"{case.what}, output {k}"
            assert str(mine.dtype) == str(his.dtype).removeprefix("torch."), f"{case.what}, output {k}"
            assert mine.requires_grad == his.requires_grad, f"{case.what}, output {k}"
            if his.requires_grad:
                g = np.random.default_rng(k).normal(size=mine.shape).astype(dtype)
                total = total + (mine * tx.tensor(g)).nansum()
                reference = reference + (his * torch.tensor(g))[~his.detach().isnan()].sum()
        if reference.requires_grad:
            reference.backward()
        runs.append((case, ours, theirs, found, want))
    if total.requires_grad:
        total.backward()
    for case, ours, theirs, found, want in runs:
        for mine, his in zip(found, want, strict=True):
            close(mine.detach().numpy(), his.detach().numpy(), FORWARD, dtype, case)
        for mine, his in zip(ours, theirs, strict=True):
            want_grad = np.zeros(mine.shape, dtype) if his.grad is None else his.grad.numpy()
            got_grad = np.zeros(mine.shape, dtype) if mine.grad is None else mine.grad.numpy()
            close(got_grad, want_grad, GRADIENT, dtype, case)


def close(got: Any, want: Any, table: Any, dtype: str, case: Same) -> None:
    rtol, atol = (case.loose * t for t in table[dtype])
    np.testing.assert_allclose(got, want, rtol=rtol, atol=atol, err_msg=case.what)
