"""Bad input for scans, orders, scatters, rearrangements, products, layers and linear algebra."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torsh_fx as tx

F, L = tx.nn.functional, tx.linalg
TYPE, VALUE, INDEX, SHAPE = (TypeError,), (ValueError,), (IndexError,), (tx.ShapeMismatchError, ValueError)
NONE: tuple[type[Exception], ...] = (tx.AutogradError,)
Row = tuple[str, Callable[[Any], Any], tuple[type[Exception], ...], str]

ROWS: list[Row] = [
    # along an axis
    ("prod: axis", lambda w: w.x.prod(2), INDEX, "prod.*axis 2"),
    ("prod: dtype", lambda w: w.x.prod(dtype="real"), TYPE, "dtype 'real'"),
    ("prod: keepdim", lambda w: w.x.prod(0, "a"), TYPE, "prod.*keepdim"),
    ("count_nonzero: axis", lambda w: w.x.count_nonzero(2), INDEX, "count_nonzero.*axis 2"),
    ("nansum: axis", lambda w: w.x.nansum(2), INDEX, "axis 2"),
    ("nanmean: integers", lambda w: w.i.nanmean(), TYPE, "nanmean.*int64"),
    ("var: unbiased", lambda w: w.x.var(0, "a"), TYPE, "var.*unbiased.*'a'"),
    ("var: both", lambda w: w.x.var(0, True, correction=1), TYPE, "var.*without correction"),
    ("var_mean: axis", lambda w: tx.var_mean(w.x, 2), INDEX, "var_mean.*axis 2"),
    ("std_mean: correction", lambda w: tx.std_mean(w.x, correction="a"), TYPE, "std_mean.*correction"),
    ("topk: k", lambda w: w.x.topk(4), INDEX, "topk.*k 4.*extent 3"),
    ("topk: k text", lambda w: w.x.topk("a"), TYPE, "topk.*integer.*'a'"),
    ("topk: flag", lambda w: w.x.topk(1, largest=1), TYPE, "topk.*largest"),
    ("kthvalue: k", lambda w: w.x.kthvalue(0), INDEX, "kthvalue.*k 0.*extent 3"),
    ("median: empty", lambda w: tx.zeros(0).median(), VALUE, "median.*empty"),
    ("median: axis", lambda w: w.x.median(2), INDEX, "median.*axis 2"),
    ("nanmedian: empty", lambda w: tx.zeros(2, 0).nanmedian(1), VALUE, "nanmedian.*empty"),
    ("mode: empty", lambda w: tx.zeros(2, 0).mode(1), VALUE, "mode.*empty"),
    ("aminmax: axis", lambda w: w.x.aminmax(dim=2), INDEX, "aminmax.*axis 2"),
    ("sort: flag", lambda w: w.x.sort(0, "a"), TYPE, "sort.*descending.*'a'"),
    ("argsort: flag", lambda w: w.x.argsort(0, 1), TYPE, "argsort.*descending.*1"),
    ("searchsorted: shapes", lambda w: tx.searchsorted(w.x, w.v), SHAPE, "searchsorted.*leading"),
    ("searchsorted: side", lambda w: tx.searchsorted(w.v, w.v, side="up"), VALUE, "searchsorted.*side.*'up'"),
    ("searchsorted: text", lambda w: tx.searchsorted(w.v, "a"), TYPE, "searchsorted.*str"),
    ("bucketize: axes", lambda w: tx.bucketize(w.v, w.x), VALUE, "bucketize.*1 axis"),
    # by index
    ("scatter: index", lambda w: w.x.scatter(1, tx.tensor([[3], [0]]), 1.0), INDEX, "scatter.*index 3"),
    ("scatter: negative", lambda w: w.x.scatter(1, tx.tensor([[-1], [0]]), 1.0), INDEX, "scatter.*index -1"),
    ("scatter: rank", lambda w: w.x.scatter(0, w.i, 1.0), SHAPE, "scatter.*rank"),
    ("scatter: src", lambda w: w.x.scatter(1, tx.tensor([[0, 1]]), w.v), SHAPE, "scatter.*src"),
    ("scatter: dtype", lambda w: w.x.scatter(1, tx.tensor([[0], [1]]), w.x.double()), TYPE, "scatter.*float64"),
    ("scatter: reduce", lambda w: w.x.scatter(1, tx.tensor([[0]]), w.x, reduce="max"), VALUE, "scatter.*'max'"),
    ("scatter: text", lambda w: w.x.scatter(1, tx.tensor([[0]]), "a"), TYPE, "scatter.*str"),
    ("scatter_add: index", lambda w: w.x.scatter_add(1, tx.tensor([[3]]), w.x), INDEX, "scatter_add.*index 3"),
    ("scatter_add: bool", lambda w: w.b.scatter_add(0, tx.tensor([0]), w.b), TYPE, "scatter_add.*booleans"),
    ("scatter_reduce: how", lambda w: w.x.scatter_reduce(1, tx.tensor([[0]]), w.x, "most"), VALUE, "'most'"),
    ("index_add: index", lambda w: w.x.index_add(0, tx.tensor([2]), w.x[:1]), INDEX, "index_add.*index 2"),
    ("index_add: shape", lambda w: w.x.index_add(0, w.i, w.v), SHAPE, "index_add.*source"),
    ("index_copy: axis", lambda w: w.x.index_copy(2, w.i, w.x), INDEX, "index_copy.*axis 2"),
    ("index_fill: value", lambda w: w.x.index_fill(0, w.i, w.v), VALUE, "index_fill.*no axes"),
    ("index_fill: text", lambda w: w.x.index_fill(0, w.i, "a"), TYPE, "index_fill.*str"),
    ("index_put: indices", lambda w: w.x.index_put(3, w.v), TYPE, "index_put.*tuple.*int"),
    ("index_put: values", lambda w: w.x.index_put((w.i,), tx.ones(5)), SHAPE, "expand"),
    ("index_put: index", lambda w: w.x.index_put((tx.tensor([5]),), w.v), INDEX, "index 5"),
    ("take: index", lambda w: w.x.take(tx.tensor([6])), INDEX, "index 6"),
    ("take: floats", lambda w: w.x.take(w.v), TYPE, "take.*integers.*float32"),
    ("take_along_dim: index", lambda w: w.x.take_along_dim(tx.tensor([[3], [0]]), 1), INDEX, "index 3"),
    ("take_along_dim: rank", lambda w: w.x.take_along_dim(w.i, 1), SHAPE, "take_along_dim.*rank"),
    ("masked_select: mask", lambda w: w.x.masked_select(w.x), TYPE, "masked_select.*bool"),
    ("masked_select: shape", lambda w: w.x.masked_select(w.b[:2]), SHAPE, "masked_select"),
    ("masked_scatter: few", lambda w: w.x.masked_scatter(w.b, w.s.reshape(1)).tolist(), INDEX, "index"),
    ("masked_scatter: mask", lambda w: w.x.masked_scatter(w.x, w.x), TYPE, "masked_scatter.*bool"),
    ("masked_scatter: dtype", lambda w: w.x.masked_scatter(w.b, w.d), TYPE, "masked_scatter.*float64"),
    # rearranging
    ("roll: shifts", lambda w: w.x.roll((1, 2), 0), VALUE, "roll.*shifts"),
    ("roll: text", lambda w: w.x.roll("a", 0), TYPE, "roll.*integer.*'a'"),
    ("roll: axis", lambda w: w.x.roll(1, 2), INDEX, "roll.*axis 2"),
    ("fliplr: vector", lambda w: w.v.fliplr(), SHAPE, "fliplr.*2 axes"),
    ("flipud: 0-d", lambda w: w.s.flipud(), SHAPE, "flipud.*1 axis"),
    ("rot90: axes", lambda w: w.x.rot90(1, (0, 0)), INDEX, "rot90.*twice"),
    ("rot90: one axis", lambda w: w.x.rot90(1, (0,)), VALUE, "rot90.*two axes"),
    ("tile: negative", lambda w: w.x.tile(-1), VALUE, "tile.*negative"),
    ("repeat: few", lambda w: w.x.repeat(2), SHAPE, "repeat.*each axis"),
    ("repeat: text", lambda w: w.x.repeat("a", 1), TYPE, "repeat.*integer.*'a'"),
    ("repeat_interleave: negative", lambda w: w.x.repeat_interleave(-1), VALUE, "repeat_interleave.*-1"),
    ("repeat_interleave: counts", lambda w: w.x.repeat_interleave(tx.tensor([1, 2, 3]), 0), SHAPE, "count"),
    ("repeat_interleave: floats", lambda w: w.x.repeat_interleave(w.v, 1), TYPE, "integers.*float32"),
    ("repeat_interleave: size", lambda w: w.v.repeat_interleave(2, output_size=5), VALUE, "output_size 5"),
    ("tril: vector", lambda w: w.v.tril(), SHAPE, "tril.*2 axes"),
    ("triu: text", lambda w: w.x.triu("a"), TYPE, "triu.*diagonal.*'a'"),
    ("diag: 0-d", lambda w: w.s.diag(), SHAPE, "diag.*vector or a matrix"),
    ("diagonal: one axis", lambda w: w.x.diagonal(0, 0, 0), INDEX, "diagonal.*different"),
    ("diag_embed: 0-d", lambda w: w.s.diag_embed(), SHAPE, "diag_embed.*axis"),
    ("trace: vector", lambda w: w.v.trace(), SHAPE, "trace.*matrix"),
    ("meshgrid: matrix", lambda w: tx.meshgrid(w.x), SHAPE, "meshgrid.*vectors"),
    ("meshgrid: none", lambda w: tx.meshgrid(), VALUE, "meshgrid.*no tensors"),
    ("meshgrid: indexing", lambda w: tx.meshgrid(w.v, indexing="a"), VALUE, "meshgrid.*'a'"),
    # products
    ("mm: vector", lambda w: w.x.mm(w.v), SHAPE, "mm.*ranks"),
    ("mv: ranks", lambda w: w.x.mv(w.x), SHAPE, "mv.*ranks"),
    ("mv: dtype", lambda w: w.x.mv(w.d), TYPE, "mv.*float32.*float64"),
    ("dot: lengths", lambda w: w.v.dot(tx.ones(2)), SHAPE, "dot.*3 and 2"),
    ("inner: extents", lambda w: w.x.inner(tx.ones(2)), SHAPE, "inner.*3 and 2"),
    ("outer: matrix", lambda w: w.x.outer(w.v), SHAPE, "outer.*vectors"),
    ("vecdot: shapes", lambda w: w.x.vecdot(tx.ones(2)), SHAPE, "broadcast"),
    ("cross: extent", lambda w: tx.ones(2, 2).cross(tx.ones(2, 2)), SHAPE, "cross.*extent 3"),
    ("cross: rank", lambda w: w.x.cross(w.v), SHAPE, "cross.*rank"),
    ("kron: text", lambda w: w.x.kron("a"), TYPE, "kron.*str"),
    ("tensordot: extents", lambda w: tx.tensordot(w.x, w.x, 1), SHAPE, "tensordot.*3 and 2"),
    ("tensordot: dims", lambda w: tx.tensordot(w.x, w.x, 3), VALUE, "tensordot.*dims 3"),
    ("tensordot: lists", lambda w: tx.tensordot(w.x, w.x, ((0, 1), (0,))), VALUE, "tensordot.*as many"),
    ("bmm: ranks", lambda w: w.x.bmm(w.x), SHAPE, "bmm.*ranks"),
    ("bmm: batches", lambda w: tx.ones(2, 1, 1).bmm(tx.ones(3, 1, 1)), SHAPE, "bmm.*batches"),
    ("addmm: shape", lambda w: w.x.addmm(w.x, w.x.T), SHAPE, "addmm"),
    ("addmv: dtype", lambda w: tx.ones(2).double().addmv(w.x, w.v), TYPE, "addmv.*float64"),
    ("addr: vectors", lambda w: w.x.addr(w.x, w.v), SHAPE, "addr.*ranks"),
    ("baddbmm: ranks", lambda w: w.x.baddbmm(w.x, w.x), SHAPE, "baddbmm.*ranks"),
    ("addbmm: ranks", lambda w: w.x.addbmm(w.x, w.x), SHAPE, "addbmm.*ranks"),
    ("cdist: extents", lambda w: tx.cdist(w.x, tx.ones(2, 2)), SHAPE, "cdist.*3 and 2"),
    ("cdist: p", lambda w: tx.cdist(w.x, w.x, -1), VALUE, "cdist.*p.*-1"),
    ("einsum: text", lambda w: tx.einsum(3, w.x), TYPE, "einsum.*text.*int"),
    ("einsum: count", lambda w: tx.einsum("ij", w.x, w.x), VALUE, "einsum.*1 operand.*got 2"),
    ("einsum: rank", lambda w: tx.einsum("i->i", w.x), VALUE, r"einsum.*'i'.*\[2, 3\]"),
    ("einsum: extents", lambda w: tx.einsum("ij,jk", w.x, w.x), SHAPE, "einsum.*'j'.*3 and 2"),
    ("einsum: result", lambda w: tx.einsum("ij->k", w.x), VALUE, "einsum.*no operand"),
    ("einsum: sign", lambda w: tx.einsum("i?->i", w.x), VALUE, "einsum.*'i\\?'"),
    # counting
    ("nonzero: flag", lambda w: w.x.nonzero(as_tuple=1), TYPE, "nonzero.*as_tuple"),
    ("argwhere: text", lambda w: tx.argwhere("a"), TYPE, "argwhere.*str"),
    ("unique: flag", lambda w: w.x.unique(return_counts=1), TYPE, "unique.*return_counts"),
    ("unique: axis", lambda w: w.x.unique(dim=2), INDEX, "unique.*axis 2"),
    ("bincount: floats", lambda w: w.v.bincount(), TYPE, "bincount.*float32"),
    ("bincount: negative", lambda w: tx.tensor([-1]).bincount(), VALUE, "bincount.*-1"),
    ("bincount: weights", lambda w: w.i.bincount(w.v), SHAPE, "bincount.*weight"),
    ("histc: bins", lambda w: w.v.histc(0), VALUE, "histc.*0 bins"),
    ("histc: integers", lambda w: w.i.histc(), TYPE, "histc.*int64"),
    # linear algebra
    ("cholesky: shape", lambda w: w.x.cholesky(), SHAPE, "cholesky.*square"),
    ("cholesky: integers", lambda w: tx.cholesky(tx.tensor([[1]])), TYPE, "cholesky.*floating"),
    ("det: shape", lambda w: w.x.det(), SHAPE, "det.*square"),
    ("slogdet: shape", lambda w: w.x.slogdet(), SHAPE, "slogdet.*square"),
    ("logdet: shape", lambda w: w.x.logdet(), SHAPE, "slogdet.*square"),
    ("inverse: shape", lambda w: w.x.inverse(), SHAPE, "inv.*square"),
    ("inv: text", lambda w: L.inv("a"), TYPE, "inv.*str"),
    ("pinverse: vector", lambda w: w.v.pinverse(), SHAPE, "pinv.*matrices"),
    ("pinv: rtol", lambda w: L.pinv(w.x, "a"), TYPE, "pinv.*rtol"),
    ("pinv: atol", lambda w: L.pinv(w.x, atol=w.i), TYPE, "pinv.*atol"),
    ("pinv: batch", lambda w: L.pinv(tx.ones(2, 2, 2), tx.ones(3)), SHAPE, "pinv.*rtol"),
    ("pinv: hermitian", lambda w: L.pinv(w.x, hermitian=True), SHAPE, "pinv.*square"),
    ("solve: rows", lambda w: L.solve(tx.eye(2), tx.ones(3, 1)), SHAPE, "solve.*rows"),
    ("solve: shape", lambda w: L.solve(w.x, w.x), SHAPE, "solve.*square"),
    ("solve: left", lambda w: L.solve(tx.eye(2), tx.ones(2), left=False), SHAPE, "solve.*left"),
    ("solve_triangular: shape", lambda w: L.solve_triangular(w.x, w.x, upper=True), SHAPE, "solve_triangular.*square"),
    ("solve_triangular: flag", lambda w: L.solve_triangular(tx.eye(2), w.x, upper=1), TYPE, "upper"),
    ("svd: vector", lambda w: L.svd(w.v), SHAPE, "svd.*matrices"),
    ("svd: flag", lambda w: L.svd(w.x, "a"), TYPE, "svd.*full_matrices"),
    ("svdvals: vector", lambda w: L.svdvals(w.v), SHAPE, "svd.*matrices"),
    ("eigh: UPLO", lambda w: L.eigh(tx.eye(2), "A"), VALUE, "eigh.*UPLO.*'A'"),
    ("eigvalsh: shape", lambda w: L.eigvalsh(w.x), SHAPE, "eigh.*square"),
    ("qr: mode", lambda w: L.qr(w.x, "a"), VALUE, "qr.*mode.*'a'"),
    ("qr: completed", lambda w: L.qr(w.x.T, "complete").Q.sum().backward(), NONE, "complement"),
    ("lstsq: vector", lambda w: L.lstsq(w.x, w.v), SHAPE, "lstsq.*matrices"),
    ("lstsq: driver", lambda w: L.lstsq(w.x, w.x, driver="gel"), VALUE, "lstsq.*driver.*'gel'"),
    ("matrix_power: shape", lambda w: w.x.matrix_power(2), SHAPE, "matrix_power.*square"),
    ("matrix_power: n", lambda w: tx.eye(2).matrix_power(0.5), TYPE, "matrix_power.*integer"),
    ("matrix_rank: flag", lambda w: L.matrix_rank(tx.eye(2), hermitian=1), TYPE, "matrix_rank.*hermitian"),
    ("matrix_rank: tol", lambda w: L.matrix_rank(w.x, "a"), TYPE, "matrix_rank.*tol"),
    ("matrix_norm: ord", lambda w: L.matrix_norm(w.x, 3), VALUE, "matrix_norm.*ord.*3"),
    ("matrix_norm: axes", lambda w: L.matrix_norm(w.x, dim=(0,)), VALUE, "matrix_norm.*two axes"),
    ("vector_norm: ord", lambda w: L.vector_norm(w.x, "fro"), TYPE, "vector_norm.*ord"),
    ("vector_norm: integers", lambda w: L.vector_norm(w.i), TYPE, "vector_norm.*floating"),
    ("vector_norm: empty", lambda w: L.vector_norm(tx.zeros(0), float("inf")), VALUE, "vector_norm.*empty"),
    ("norm: name", lambda w: w.x.norm("most"), VALUE, "norm.*'most'"),
    ("norm: integers", lambda w: w.i.norm(), TYPE, "norm.*floating.*int64"),
    ("linalg.norm: axes", lambda w: L.norm(tx.ones(2, 2, 2), 2), SHAPE, "norm.*1 or 2 axes"),
    # layers
    ("layer_norm: shape", lambda w: F.layer_norm(w.x, (2,)), SHAPE, "layer_norm.*end in"),
    ("layer_norm: weight", lambda w: F.layer_norm(w.x, (3,), tx.ones(2)), SHAPE, "layer_norm.*weight"),
    ("layer_norm: integers", lambda w: F.layer_norm(w.i, (2,)), TYPE, "layer_norm.*int64"),
    ("rms_norm: eps", lambda w: F.rms_norm(w.x, (3,), eps="a"), TYPE, "rms_norm.*eps"),
    ("group_norm: groups", lambda w: F.group_norm(w.x, 2), VALUE, "group_norm.*2.*3 channels"),
    ("group_norm: rank", lambda w: F.group_norm(w.v, 1), SHAPE, "group_norm.*channels"),
    ("batch_norm: none", lambda w: F.batch_norm(w.x, None, None), VALUE, "batch_norm.*running"),
    ("batch_norm: shape", lambda w: F.batch_norm(w.x, w.d[:2], w.d[:2]), SHAPE, "batch_norm.*running_mean"),
    ("batch_norm: one value", lambda w: F.batch_norm(w.x[:1], None, None, training=True), VALUE, "more than 1"),
    ("batch_norm: training", lambda w: F.batch_norm(w.x, None, None, training=1), TYPE, "batch_norm.*training"),
    ("instance_norm: rank", lambda w: F.instance_norm(w.x), SHAPE, "instance_norm.*channels"),
    ("pad: odd", lambda w: F.pad(w.x, (1, 2, 3)), VALUE, "pad.*pairs.*3"),
    ("pad: mode", lambda w: F.pad(w.x, (1, 1), "mirror"), VALUE, "pad.*'mirror'"),
    ("pad: too wide", lambda w: F.pad(w.x, (3, 0), "reflect"), VALUE, "pad.*too large"),
    ("pad: axes", lambda w: F.pad(w.v, (1, 1, 1, 1)), SHAPE, "pad.*more pairs"),
    ("pad: value", lambda w: F.pad(w.x, (1, 1), value="a"), TYPE, "pad.*value"),
    ("interpolate: rank", lambda w: F.interpolate(w.x, 2), SHAPE, "interpolate.*spatial"),
    ("interpolate: neither", lambda w: F.interpolate(tx.ones(1, 1, 2)), VALUE, "interpolate.*exactly one"),
    ("interpolate: mode", lambda w: F.interpolate(tx.ones(1, 1, 2), 2, mode="cubic"), VALUE, "interpolate.*'cubic'"),
    ("fold: count", lambda w: F.fold(tx.ones(1, 4, 5), 3, 2), VALUE, "fold.*2 x 2.*got 5"),
    ("fold: rows", lambda w: F.fold(tx.ones(1, 3, 4), 3, 2), SHAPE, "fold.*kh"),
]


def _pools() -> list[Row]:
    rows: list[Row] = []
    for n in (1, 2, 3):
        image = tx.ones(1, 1, *(4,) * n)
        for kind in ("max", "avg"):
            name = f"{kind}_pool{n}d"
            pool = getattr(F, name)
            rows += [
                (f"{name}: rank", lambda w, p=pool: p(w.s, 2), SHAPE, f"{name}.*channels"),
                (f"{name}: kernel", lambda w, p=pool, x=image: p(x, 5), VALUE, f"{name}.*5 places.*extent 4"),
                (f"{name}: text", lambda w, p=pool, x=image: p(x, "a"), TYPE, f"{name}.*kernel_size.*'a'"),
                (f"{name}: stride", lambda w, p=pool, x=image: p(x, 2, 0), VALUE, f"{name}.*at least 1"),
                (f"{name}: padding", lambda w, p=pool, x=image: p(x, 2, 1, 2), VALUE, f"{name}.*half the window"),
            ]
    for n in (1, 2):
        image = tx.ones(1, 1, *(4,) * n)
        for kind in ("max", "avg"):
            name = f"adaptive_{kind}_pool{n}d"
            pool = getattr(F, name)
            rows += [
                (f"{name}: rank", lambda w, p=pool: p(w.s, 2), SHAPE, f"{name}.*channels"),
                (f"{name}: size", lambda w, p=pool, x=image: p(x, -1), VALUE, f"{name}.*-1"),
                (f"{name}: text", lambda w, p=pool, x=image: p(x, "a"), TYPE, f"{name}.*output_size"),
            ]
    return rows


def _running() -> list[Row]:
    rows: list[Row] = []
    for name in ("cumsum", "cumprod", "logcumsumexp", "cummax", "cummin"):
        function = getattr(tx, name)
        rows += [
            (f"{name}: text", lambda w, f=function: f("a", 0), TYPE, f"{name}.*str"),
            (f"{name}: axis", lambda w, f=function: f(w.x, 2), INDEX, f"{name}.*axis 2"),
            (f"{name}: axis text", lambda w, f=function: f(w.x, "a"), TYPE, f"{name}.*integer.*'a'"),
        ]
    return rows


ROWS += [*_pools(), *_running()]
