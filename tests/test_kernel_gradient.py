"""The gradient of a kernel as matrix products, against the one convolution it stands for."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from torsh_fx.rules import conv1d, conv2d, conv3d, conv_transpose2d, vjp

from tolerances import close

PLACES: dict[str, Any] = {
    "few channels": (conv2d, (4, 1, 14, 14), (3, 1, 3, 3), {"padding": 1}),
    "few channels, stride": (conv2d, (2, 3, 40, 24), (4, 3, 5, 5), {"stride": 2, "padding": (1, 0)}),
    "in chunks": (conv2d, (64, 16, 13, 13), (3, 16, 2, 2), {}),
    "few channels in chunks": (conv2d, (27, 2, 48, 56), (2, 2, 3, 3), {"padding": (1, 2)}),
    "dilation, same": (conv2d, (2, 17, 14, 12), (5, 17, 2, 3), {"padding": "same", "dilation": (2, 3)}),
    "one axis": (conv1d, (3, 2, 400), (4, 2, 7), {"stride": 3, "dilation": 2}),
    "three axes": (conv3d, (2, 1, 7, 8, 9), (2, 1, 2, 3, 2), {"padding": (0, 1, 0), "stride": (1, 1, 2)}),
    "transposed": (conv_transpose2d, (2, 3, 12, 13), (3, 2, 3, 2), {"stride": 2, "output_padding": (1, 0)}),
}


def operands(row: Any, x: tuple[int, ...], w: tuple[int, ...], params: Any) -> tuple[Any, ...]:
    rng = np.random.default_rng(0)
    a, b = (jnp.asarray(rng.normal(size=s), "float32") for s in (x, w))
    shape = jax.eval_shape(lambda a, b: row(a, b, **params), a, b).shape
    return jnp.asarray(rng.normal(size=shape), "float32"), a, b


def same(got: Any, want: Any, place: str) -> None:
    """Sums over many windows are as exact as their largest terms allow."""
    scale = float(jnp.max(jnp.abs(want)))
    close(got / scale, want / scale, gradient=True, what=place)


@pytest.mark.parametrize("place", PLACES)
def test_products_are_the_convolution(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    row, x, w, params = PLACES[place]
    g, a, b = operands(row, x, w, params)

    def gradient() -> Any:
        return vjp(row.name, g, a, b, **params)[1]

    products = gradient(), str(jax.make_jaxpr(lambda: gradient())())
    monkeypatch.setattr(jax, "default_backend", lambda: "elsewhere")
    convolution = gradient(), str(jax.make_jaxpr(lambda: gradient())())
    same(products[0], convolution[0], place)
    forms = [jaxpr.count("conv_general_dilated[") for jaxpr in (products[1], convolution[1])]
    assert forms == ([1, 2] if jax.devices()[0].platform == "cpu" else [2, 2])  # x's gradient is one in both


@pytest.mark.parametrize("place", ["few channels", "in chunks"])
def test_products_differentiate_and_map(place: str) -> None:
    row, x, w, params = PLACES[place]
    g, a, b = operands(row, x, w, params)

    def energy(w: Any, x: Any) -> Any:
        return jnp.sum(jnp.sin(row(x, w, **params)) * g)

    def by_hand(w: Any, x: Any) -> Any:
        pads = [(params.get("padding", 0),) * 2] * 2
        return jnp.sum(jnp.sin(jax.lax.conv_general_dilated(x, w, (1, 1), pads, precision="highest")) * g)

    def second(fn: Any) -> Any:
        return jax.jit(jax.grad(lambda w, x: jnp.sum(jax.grad(fn)(w, x) ** 2), (0, 1)))(b, a)

    def mapped(fn: Any) -> Any:
        return jax.jit(jax.vmap(jax.grad(fn), (0, None)))(jnp.stack([b, -2 * b]), a)

    for got, want in zip(second(energy), second(by_hand), strict=True):
        same(got, want, place)
    same(mapped(energy), mapped(by_hand), place)
