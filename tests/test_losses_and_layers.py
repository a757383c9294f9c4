"""Activations, losses, distances and layers of ``nn.functional`` against PyTorch; kinks and zeros included."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest

import torsh_fx as tx
from test_functional import Case, numbers, reduced
from tolerances import close

F = tx.nn.functional
INF, NAN = math.inf, math.nan
CLASSES = [0, 2, 1, 2]
SIGNS = [1, -1, -1, 1]


@pytest.fixture
def torch() -> Any:
    return pytest.importorskip("torch", reason="PyTorch is not installed")


def every(name: str, *shapes: tuple[int, ...], target: Any = None, **options: Any) -> Case:
    """A loss under all three reductions, of leaves of ``shapes`` and perhaps a constant target."""

    def fn(F: Any, t: Any, *leaves: Any) -> Any:
        given = [*leaves] if target is None else [*leaves, t(target).to(leaves[0].dtype)]
        return reduced(lambda r: getattr(F, name)(*given, reduction=r, **options))

    label = "-".join(f"{k}{v}" for k, v in options.items())
    return Case(f"{name}-{label}-{len(shapes[0])}d", fn, *shapes)


def probabilities(x: Any) -> Any:
    return 0.5 + 0.24 * x  # of leaves in (−2, 2)


def plain(name: str, *shapes: tuple[int, ...], **options: Any) -> Case:
    label = "-".join(f"{k}{v}" for k, v in options.items())
    return Case(f"{name}-{label}", lambda F, t, *leaves: getattr(F, name)(*leaves, **options), *(shapes or ((3, 4),)))


def weights(F: Any, t: Any, x: Any) -> Any:
    return t([0.5, 2.0, 1.0, 3.0]).to(x.dtype)


CASES = [
    *map(plain, ["silu", "mish", "logsigmoid", "hardswish", "hardsigmoid", "softsign", "tanhshrink", "selu", "relu6"]),
    plain("softplus", beta=2, threshold=1.5),
    plain("elu", alpha=0.4),
    plain("celu", alpha=0.5),
    plain("hardtanh", min_val=-0.3, max_val=1.1),
    plain("hardshrink", lambd=0.7),
    plain("softshrink", lambd=0.7),
    plain("threshold", threshold=0.2, value=-3.0),
    plain("glu", (3, 4), dim=1),
    plain("glu", (4, 3, 2), dim=0),
    plain("softmin", dim=-1),
    plain("prelu", (2, 4, 3), (4,)),
    plain("prelu", (5,), (1,)),
    plain("prelu", (2, 4), (1,)),
    *(every(n, (3, 4), (3, 4)) for n in ("l1_loss", "huber_loss", "smooth_l1_loss")),
    every("soft_margin_loss", (3, 4), target=SIGNS),
    every("huber_loss", (3, 4), (3, 4), delta=0.6),
    every("smooth_l1_loss", (3, 4), (3, 4), beta=0.6),
    every("smooth_l1_loss", (3, 4), (3, 4), beta=0),
    Case("l1_loss-weight", lambda F, t, x, y: F.l1_loss(x, y, weight=y * y), (3, 4), (3, 4)),
    Case("huber_loss-weight", lambda F, t, x, y: F.huber_loss(x, y, weight=y * y, delta=0.5), (3, 4), (3, 4)),
    Case(
        "binary_cross_entropy",
        lambda F, t, x, y: reduced(
            lambda r: F.binary_cross_entropy(probabilities(x), probabilities(y), weights(F, t, x), reduction=r)
        ),
        (3, 4),
        (3, 4),
    ),
    Case(
        "binary_cross_entropy_with_logits",
        lambda F, t, x, y: reduced(lambda r: F.binary_cross_entropy_with_logits(40 * x, probabilities(y), reduction=r)),
        (3, 4),
        (3, 4),
    ),
    Case(
        "binary_cross_entropy_with_logits-weights",
        lambda F, t, x, y: F.binary_cross_entropy_with_logits(
            x, probabilities(y), weights(F, t, x), pos_weight=2 * weights(F, t, x)
        ),
        (3, 4),
        (3, 4),
    ),
    Case(
        "kl_div",
        lambda F, t, x, y: (
            reduced(lambda r: F.kl_div(F.log_softmax(x, 1), F.softmax(y, 1), reduction=r))
            + F.kl_div(x, probabilities(y), reduction="batchmean")
        ),
        (3, 4),
        (3, 4),
    ),
    Case("kl_div-log", lambda F, t, x, y: reduced(lambda r: F.kl_div(x, y, reduction=r, log_target=True)), (3,), (3,)),
    every("cosine_embedding_loss", (4, 3), (4, 3), target=SIGNS, margin=-0.4),
    every("margin_ranking_loss", (4,), (4,), target=SIGNS, margin=0.3),
    every("hinge_embedding_loss", (3, 4), target=SIGNS, margin=1.2),
    every("multilabel_soft_margin_loss", (3, 4), target=[[1, 0, 1, 1], [0, 0, 0, 0], [1, 1, 0, 1]]),
    every("triplet_margin_loss", (4, 3), (4, 3), (4, 3)),
    every("triplet_margin_loss", (4, 3), (4, 3), (4, 3), p=1, swap=True, margin=0.7),
    every("poisson_nll_loss", (3, 4), target=[0, 1, 2, 5], full=True),
    Case("poisson_nll_loss-counts", lambda F, t, x: F.poisson_nll_loss(x * x, t([0, 3, 1]), False), (2, 3)),
    Case("gaussian_nll_loss", lambda F, t, x, y, v: F.gaussian_nll_loss(x, y, v * v, full=True), (3, 2), (3, 2), (3,)),
    Case("gaussian_nll_loss-eps", lambda F, t, x, y, v: F.gaussian_nll_loss(x, y, v * v, eps=1), (3,), (3,), (3,)),
    *(
        Case(
            f"multi_margin_loss-{p}",
            lambda F, t, x, p=p: reduced(
                lambda r: F.multi_margin_loss(x, t(CLASSES), p, 0.8, t([0.5, 2.0, 1.0]).to(x.dtype), reduction=r)
            ),
            (4, 3),
        )
        for p in (1, 2)
    ),
    Case("multi_margin_loss-one", lambda F, t, x: F.multi_margin_loss(x, t(1)), (3,)),
    plain("cosine_similarity", (2, 3, 4), (2, 3, 4)),
    plain("cosine_similarity", (3, 4), (2, 3, 4), dim=-1, eps=0.5),
    *(plain("pairwise_distance", (3, 4), (3, 4), p=p) for p in (0.5, 1, 2, 3, INF)),
    plain("pairwise_distance", (3, 4), (4,), keepdim=True, eps=0.1),
    *(plain("normalize", (3, 4), p=p) for p in (1, 2, 3.5, INF)),
    plain("normalize", (2, 3, 4), dim=(0, 2)),
    plain("normalize", (3, 4), eps=4.0),
    plain("bilinear", (2, 3, 4), (2, 3, 5), (6, 4, 5), (6,)),
    plain("bilinear", (4,), (5,), (6, 4, 5)),
    Case("embedding", lambda F, t, w: F.embedding(t([[0, 2], [2, 4]]), w), (5, 3)),
    Case("embedding-padding", lambda F, t, w: F.embedding(t([0, 2, 2, 4]), w, padding_idx=-3), (5, 3)),
    Case("embedding-freq", lambda F, t, w: F.embedding(t([[0, 2], [2, 4]]), w, scale_grad_by_freq=True), (5, 3)),
    Case(
        "embedding-norm",
        lambda F, t, w: F.embedding(t([0, 2, 4]), w.clone().detach() * 1, max_norm=1.0) * w[:3],
        (5, 3),
    ),
]


def attention(name: str, fn: Callable[..., Any] | None = None, heads: int = 2, **options: Any) -> Case:
    def call(F: Any, t: Any, q: Any, k: Any, v: Any) -> Any:
        more = {} if fn is None else {"attn_mask": fn(t, q)}
        return F.scaled_dot_product_attention(q, k, v, **more, **options)

    return Case(f"attention-{name}", call, (2, 4, 3, 5), (2, heads, 6, 5), (2, heads, 6, 7))


MASK = np.array([[1, 0, 1, 1, 0, 0], [0, 0, 0, 0, 0, 0], [1, 1, 1, 1, 1, 1]], bool)
CASES += [
    attention("plain", heads=4),
    attention("scale", heads=4, scale=0.7),
    attention("causal", heads=4, is_causal=True),
    attention("mask", lambda t, q: t(MASK), heads=4),
    attention("bias", lambda t, q: t(np.where(MASK, 0.5, -INF)).to(q.dtype), heads=4),
    attention("gqa", heads=2, enable_gqa=True),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_against_torch(case, torch):
    got, want = case.run(tx), case.run(torch)
    tolerance = 1e-7 if case.name.startswith("hardsigmoid") else 0  # PyTorch's 1/6 is a float32
    for k, (ours, theirs) in enumerate(zip(got, want, strict=True)):
        if tolerance:
            np.testing.assert_allclose(ours, theirs, rtol=tolerance)
        else:
            close(ours, theirs, gradient=k > 0, what=f"{case.name}, {'value' if k == 0 else f'gradient {k - 1}'}")


# -- kinks, ties and zeros of what is composed -------------------------------------------------


def at(module: Any, fn: Callable[..., Any], dtype: str, *data: Any) -> list[Any]:
    leaves = [module.tensor(d, dtype=getattr(module, dtype), requires_grad=True) for d in data]
    out = fn(module.nn.functional, module, *leaves)
    out.sum().backward()
    return [out.detach().numpy(), *(leaf.grad.numpy() for leaf in leaves)]


POINTS = [0.0, -0.0, 1.0, -1.0, 3.0, -3.0, 6.0, 0.5, -0.5, 90.0, -90.0]
EDGES = [*POINTS, INF, -INF, NAN]
ZEROS = [[0.0, 0.0], [3.0, 4.0], [0.0, -1.0]]
SPECIAL: list[tuple[str, Callable[..., Any], tuple[Any, ...]]] = [
    ("relu6", lambda F, m, x: F.relu6(x), (POINTS,)),
    ("softsign", lambda F, m, x: F.softsign(x), (EDGES,)),
    ("tanhshrink", lambda F, m, x: F.tanhshrink(x), (EDGES,)),
    ("selu", lambda F, m, x: F.selu(x), (EDGES,)),
    ("celu", lambda F, m, x: F.celu(x, 2), (EDGES,)),
    ("glu", lambda F, m, x: F.glu(x), ([[0.0, 90.0], [2.0, -90.0], [1.0, INF]],)),
    ("frac", lambda F, m, x: m.frac(x), (EDGES,)),
    ("deg2rad", lambda F, m, x: m.deg2rad(x), (EDGES,)),
    ("rad2deg", lambda F, m, x: m.rad2deg(x), (POINTS,)),
    ("clamp_min", lambda F, m, x: x.clamp_min(1), (EDGES,)),
    ("clamp_max", lambda F, m, x: x.clamp_max(1), (EDGES,)),
    ("lerp", lambda F, m, x, y: m.lerp(x, y, 0.3), (POINTS, POINTS[::-1])),
    ("lerp-tensor", lambda F, m, x, y: m.lerp(x, y, x), (POINTS, POINTS[::-1])),
    ("addcmul", lambda F, m, x, y: m.addcmul(x, x, y, value=0.5), (POINTS, POINTS[::-1])),
    ("addcdiv", lambda F, m, x, y: m.addcdiv(x, x, y, value=0.5), ([0.0, 1.0, 2.0], [1.0, 0.0, -2.0])),
    ("xlogy-number", lambda F, m, x: m.xlogy(x, 3), (EDGES,)),
    ("logsumexp-all", lambda F, m, x: m.logsumexp(x, (0, 1)), ([[-INF, 0.0], [1.0, 1000.0]],)),
    ("logsumexp-none", lambda F, m, x: m.logsumexp(x, 0), ([-INF, -INF],)),
    ("l1_loss", lambda F, m, x: F.l1_loss(x, m.zeros(11)), (POINTS,)),
    ("huber_loss", lambda F, m, x: F.huber_loss(x, 0 * x.detach(), reduction="none"), (EDGES,)),
    ("smooth_l1_loss-0", lambda F, m, x: F.smooth_l1_loss(x, 0 * x.detach(), beta=0, reduction="none"), (EDGES,)),
    ("bce", lambda F, m, x: F.binary_cross_entropy(x, m.ones(3) - x.detach(), reduction="none"), ([0.0, 1.0, 0.5],)),
    ("logits", lambda F, m, x: F.binary_cross_entropy_with_logits(x, 0 * x.detach() + 1), (POINTS,)),
    ("kl_div", lambda F, m, x: F.kl_div(x, m.zeros(11)), (POINTS,)),
    ("margin_ranking", lambda F, m, x, y: F.margin_ranking_loss(x, y, m.ones(2)), ([1.0, 2.0], [1.0, 3.0])),
    ("hinge_embedding", lambda F, m, x: F.hinge_embedding_loss(x, -m.ones(3)), ([1.0, 0.5, 2.0],)),
    ("soft_margin", lambda F, m, x: F.soft_margin_loss(x, m.ones(3)), ([0.0, 50.0, -50.0],)),
    ("multi_margin", lambda F, m, x: F.multi_margin_loss(x, m.tensor(0)), ([1.0, 0.0, 0.5],)),
    ("triplet", lambda F, m, x: F.triplet_margin_loss(x, x.detach(), x.detach()), (ZEROS,)),
    ("cosine_similarity", lambda F, m, x, y: F.cosine_similarity(x, y), (ZEROS, [[1.0, 2.0], [0.0, 0.0], [0.0, 2.0]])),
    ("normalize", lambda F, m, x: F.normalize(x), (ZEROS,)),
    ("normalize-1", lambda F, m, x: F.normalize(x, 1), (ZEROS,)),
    ("normalize-3", lambda F, m, x: F.normalize(x, 3), (ZEROS,)),
    ("normalize-inf", lambda F, m, x: F.normalize(x, INF), ([[2.0, -2.0], [0.0, 0.0]],)),
    ("distance-0", lambda F, m, x: F.pairwise_distance(x, x.detach(), eps=0), (ZEROS,)),
    ("distance-half", lambda F, m, x: F.pairwise_distance(x, 0 * x.detach(), 0.5, eps=0), (ZEROS[1:],)),
    ("prelu", lambda F, m, x, w: F.prelu(x, w), (EDGES, [0.25])),
    ("bce-saturated", lambda F, m, x: F.binary_cross_entropy_with_logits(x, 0 * x.detach() + 1), ([800.0, -800.0],)),
]


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize(("name", "fn", "data"), SPECIAL, ids=[s[0] for s in SPECIAL])
def test_special_points(name, fn, data, dtype, torch):
    got, want = at(tx, fn, dtype, *data), at(torch, fn, dtype, *data)
    rtol = 1e-9 if dtype == "float64" else 2e-5
    for ours, theirs in zip(got, want, strict=True):
        assert ours.dtype == theirs.dtype
        np.testing.assert_allclose(ours, theirs, rtol=rtol, atol=rtol, err_msg=name)


# -- promotion ------------------------------------------------------------------------------------

UNARY = "log1p expm1 exp2 erf erfc erfinv asinh acosh atanh sinc deg2rad rad2deg nan_to_num".split()  # noqa: SIM905
BINARY = ["atan2", "logaddexp", "xlogy", "copysign", "fmax", "fmin", "fmod"]
BITS = ["bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_left_shift", "bitwise_right_shift"]


@pytest.mark.parametrize("name", UNARY)
def test_integers_become_floats(name, torch):
    for data in ([1, 0, 2], [True, False]):
        ours, theirs = getattr(tx, name)(tx.tensor(data)), getattr(torch, name)(torch.tensor(data))
        close(ours.numpy(), theirs.numpy())
        assert ours.numpy().dtype == theirs.numpy().dtype


@pytest.mark.parametrize("name", [*BINARY, *BITS])
def test_promotion_of_pairs(name, torch):
    kinds = ["float32", "float64"] if name not in BITS else []
    kinds += ["int64", "int32", "uint8"] if name != "logaddexp" else []  # PyTorch's takes no integers
    for a in kinds:
        for b in kinds:
            got, want = (
                getattr(m, name)(m.tensor([7, 3, 2]).to(getattr(m, a)), m.tensor([2, 3, 1]).to(getattr(m, b)))
                for m in (tx, torch)
            )
            close(got.numpy(), want.numpy(), what=f"{name}({a}, {b})")
            assert got.numpy().dtype == want.numpy().dtype, (name, a, b)


def test_operators_on_bits():
    x, y = tx.tensor([6, -5]), tx.tensor([3, 3])
    assert [(x & y).tolist(), (x | y).tolist(), (x ^ y).tolist()] == [[2, 3], [7, -5], [5, -8]]
    assert [(~x).tolist(), (x << 2).tolist(), (x >> 1).tolist()] == [[-7, 4], [24, -20], [3, -3]]
    assert [(3 & x).tolist(), (1 << y).tolist()] == [[2, 3], [8, 8]]
    flags = tx.tensor([True, False])
    assert [(flags & True).tolist(), (~flags).tolist(), (flags ^ flags).tolist()] == [
        [True, False],
        [False, True],
        [False] * 2,
    ]
    assert (flags & x).tolist() == [0, 0]


def test_a_count_has_a_gradient_of_zeros():
    x = tx.tensor([[1.0, 0.0, 2.0]], requires_grad=True)  # PyTorch leaves the gradient out
    distance = F.pairwise_distance(x, tx.zeros(3), p=0, eps=0)
    distance.sum().backward()
    assert distance.tolist() == [2.0]
    assert x.grad.tolist() == [[0.0, 0.0, 0.0]]


# -- dropout ---------------------------------------------------------------------------------------


def test_dropout_keeps_its_share_and_its_scale():
    x = tx.ones(400, 100, requires_grad=True)
    y = F.dropout(x, 0.3)
    y.sum().backward()
    assert x.grad is not None
    kept = y.detach().numpy() != 0
    assert abs(kept.mean() - 0.7) < 0.01
    np.testing.assert_allclose(y.detach().numpy()[kept], 1 / 0.7, rtol=1e-6)
    np.testing.assert_array_equal(x.grad.numpy(), y.detach().numpy())


def test_dropout_draws_from_a_generator():
    x = tx.ones(50)
    a, b = (F.dropout(x, generator=tx.Generator(3)).tolist() for _ in range(2))
    assert a == b
    g = tx.Generator(3)
    assert F.dropout(x, generator=g).tolist() == a
    assert F.dropout(x, generator=g).tolist() != a
    tx.manual_seed(5)
    c = F.dropout(x).tolist()
    tx.manual_seed(5)
    assert F.dropout(x).tolist() == c


def test_dropout_at_the_ends():
    x = tx.tensor([1.0, NAN, 3.0])
    assert F.dropout(x, 0.9, training=False) is x
    assert F.dropout(x[::2], 0.0).tolist() == [1.0, 3.0]
    assert F.dropout(x[::2], 1.0).tolist() == [0.0, 0.0]
    assert F.dropout(x.half()).dtype == tx.float16


def test_attention_drops_weights():
    q, k, v = (tx.tensor(numbers(1, 2, 4, 3, seed=s)) for s in range(3))
    sure = F.scaled_dot_product_attention(q, k, v)
    a = F.scaled_dot_product_attention(q, k, v, dropout_p=0.5, generator=tx.Generator(1))
    assert a.tolist() == F.scaled_dot_product_attention(q, k, v, dropout_p=0.5, generator=tx.Generator(1)).tolist()
    assert a.tolist() != sure.tolist()


def test_a_changed_number_is_no_new_program():
    tx.clear_cache()  # else what other tests compiled decides what is worth compiling here
    x = tx.tensor([1.0, -2.0])

    def step(k: int) -> None:
        y = F.dropout(F.softplus(F.elu(x, alpha=k / 7), beta=1 + k), k / 10)
        F.huber_loss(F.hardtanh(y, -k, k), y, delta=k / 3).item()

    step(1)
    before = tx.stats()["misses"]
    for k in range(2, 5):
        step(k)
    assert tx.stats()["misses"] == before


def test_transforms_go_through():
    x = np.linspace(-2, 2, 5)
    for fn in (F.silu, F.mish, F.softplus, F.hardswish, tx.sinc, tx.erf):
        with jax.enable_x64(True):
            slopes = jax.vmap(jax.grad(lambda v, fn=fn: fn(v).jax()))(x)
        leaf = tx.tensor(x, requires_grad=True)
        fn(leaf).sum().backward()
        close(np.asarray(slopes), leaf.grad.numpy(), gradient=True)


def test_embedding_shortens_rows_in_place():
    weight = tx.tensor([[3.0, 4.0], [6.0, 8.0], [0.3, 0.4]], requires_grad=True)
    out = F.embedding(tx.tensor([1, 2]), weight, max_norm=1.0)
    np.testing.assert_allclose(out.detach().numpy(), [[0.6, 0.8], [0.3, 0.4]], rtol=1e-6)
    np.testing.assert_allclose(weight.detach().numpy(), [[3, 4], [0.6, 0.8], [0.3, 0.4]], rtol=1e-6)
    out.sum().backward()
    assert weight.grad.tolist() == [[0, 0], [1, 1], [1, 1]]
