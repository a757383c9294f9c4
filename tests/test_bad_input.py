"""Bad input: a typed error at the line that made it, naming the op and what came, and nothing left behind."""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bad_breadth
import bad_names
import torsh_fx as tx
from torsh_fx.aliases import ALIASES

F = tx.nn.functional
World = types.SimpleNamespace


class Bad(NamedTuple):
    """A call that must be refused with all of ``errors`` and a message like ``match``."""

    what: str
    call: Callable[[World], Any]
    errors: tuple[type[Exception], ...]
    match: str


def world() -> World:
    """Small tensors, three of them leaves that already hold a gradient."""
    w = World(
        x=tx.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], requires_grad=True),
        v=tx.tensor([1.0, 2.0, 3.0], requires_grad=True),
        s=tx.tensor(2.0, requires_grad=True),
        i=tx.tensor([0, 1]),
        b=tx.tensor([True, False, True]),
        d=tx.tensor([1.0, 2.0, 3.0], dtype=tx.float64),
        i8=tx.tensor([1, -2], dtype=tx.int8),
    )
    for leaf in (w.x, w.v, w.s):
        leaf.grad = tx.ones_like(leaf)
    w.grads = (w.x.grad, w.v.grad, w.s.grad)
    return w


TYPE, VALUE, INDEX, SHAPE = (TypeError,), (ValueError,), (IndexError,), (tx.ShapeMismatchError, ValueError)
NONE: tuple[type[Exception], ...] = (tx.AutogradError,)


def words(text: str) -> list[str]:
    return text.split()


UNARY = words(
    "exp log sqrt rsqrt reciprocal sin cos tan asin acos atan sinh cosh tanh sigmoid log10 log2 abs sign floor ceil "
    "trunc round relu isnan isinf isfinite logical_not neg square clone sum mean var std max min amax amin argmax "
    "log1p expm1 exp2 erf erfc erfinv asinh acosh atanh sinc bitwise_not frac deg2rad rad2deg nan_to_num "
    "argmin any all unbind t flatten squeeze zeros_like ones_like empty_like rand_like randn_like"
)
BINARY = words(
    "add sub mul div pow maximum minimum remainder floor_divide eq ne lt le gt ge logical_and logical_or logical_xor "
    "matmul fmax fmin fmod atan2 hypot logaddexp logaddexp2 xlogy copysign bitwise_and bitwise_or bitwise_xor "
    "bitwise_left_shift bitwise_right_shift"
)
SHAPED = {"zeros": "zeros", "ones": "ones", "empty": "empty", "rand": "rand", "randn": "randn"}
VIEWS = {"reshape": "reshape", "view": "view", "expand": "expand", "permute": "permute"}
REDUCTIONS = words("sum mean var std amax amin any all argmax argmin max min")
OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a / b,
    "//": lambda a, b: a // b,
    "**": lambda a, b: a**b,
    "@": lambda a, b: a @ b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
    "&": lambda a, b: a & b,
    "|": lambda a, b: a | b,
    "^": lambda a, b: a ^ b,
}


def families() -> Iterator[Bad]:
    """The same mistakes made with every function of a kind."""
    for name in UNARY:
        function = getattr(tx, name)
        op = {"square": "pow"}.get(name, name)
        for what in ("a", None, [1.0], np.ones(2)):
            yield Bad(f"{name}({what!r})", lambda w, f=function, a=what: f(a), TYPE, rf"{op}.*Tensor.*{kind(what)}")
    for name in BINARY:
        function, op = getattr(tx, name), {"div": "div"}.get(name, name)
        for what in ("a", None, [1.0], np.ones(3), 1j):
            yield Bad(f"{name}(x, {what!r})", lambda w, f=function, a=what: f(w.x, a), TYPE, rf"{op}.*{kind(what)}")
            yield Bad(f"{name}({what!r}, x)", lambda w, f=function, a=what: f(a, w.x), TYPE, rf"{op}.*{kind(what)}")
        yield Bad(f"{name}: two numbers", lambda w, f=function: f(1, 2), TYPE, rf"{op}.*(Tensor|number)")
        yield Bad(f"{name}: shapes", lambda w, f=function: f(w.x, tx.ones(4)), SHAPE, op)
    for sign, apply in OPERATORS.items():
        for what in ("a", None, [1.0], 1j):  # an array is a constant there
            yield Bad(f"x {sign} {what!r}", lambda w, f=apply, a=what: f(w.x, a), TYPE, kind(what))
            yield Bad(f"{what!r} {sign} x", lambda w, f=apply, a=what: f(a, w.x), TYPE, kind(what))
    for name, op in SHAPED.items():
        function = getattr(tx, name)
        for what in ("a", None, 1.5, True, (2, "a"), (2.0, 3.0), {}, tx.tensor(1.5)):
            yield Bad(f"{name}({what!r})", lambda w, f=function, a=what: f(a), TYPE, rf"\[{op}\].*integer")
        yield Bad(f"{name}(-3)", lambda w, f=function: f(-3), VALUE, rf"\[{op}\].*negative.*-3")
        yield Bad(f"{name}: huge", lambda w, f=function: f(2**40, 2**40), VALUE, rf"\[{op}\].*too large")
        yield Bad(f"{name}: huge extent", lambda w, f=function: f(2**70), VALUE, rf"\[{op}\].*too large")
        yield Bad(f"{name}: dtype text", lambda w, f=function: f(2, dtype="real"), TYPE, "dtype 'real'")
        yield Bad(f"{name}: complex", lambda w, f=function: f(2, dtype=complex), TYPE, "complex")
        yield Bad(f"{name}: device", lambda w, f=function: f(2, device="abacus"), VALUE, "device 'abacus'.*cpu:0")
        yield Bad(f"{name}: requires_grad", lambda w, f=function: f(2, requires_grad="a"), TYPE, "requires_grad.*str")
    for name, op in VIEWS.items():
        for what in ("a", None, 1.5, True, (2, "a"), {}):
            yield Bad(f"{name}({what!r})", lambda w, n=name, a=what: getattr(w.x, n)(a), TYPE, rf"\[{op}\].*integer")
    for name in REDUCTIONS:
        for what in ("a", 1.5, [0, "a"], True, {}):
            if what is True and name in ("var", "std"):  # says unbiased, as in PyTorch
                continue
            call = lambda w, n=name, a=what: getattr(w.x, n)(dim=a)  # noqa: E731
            yield Bad(f"{name}(dim={what!r})", call, TYPE, f"{name}.*integer")
        for axis in (2, -3):
            yield Bad(
                f"{name}(dim={axis})",
                lambda w, n=name, a=axis: getattr(w.x, n)(dim=a),
                INDEX,
                rf"{name}.*axis {axis}.*rank 2, shape \[2, 3\]",
            )
        yield Bad(f"{name}: keepdim", lambda w, n=name: getattr(w.x, n)(0, keepdim="a"), TYPE, f"{name}.*keepdim.*'a'")
    for name in ("sum", "mean", "var", "amax", "any"):
        yield Bad(f"{name}: twice", lambda w, n=name: getattr(w.x, n)(dim=(0, -2)), INDEX, "axis 0.*twice")
    for name in ("softmax", "log_softmax"):
        for module in (tx, F):
            function = getattr(module, name)
            yield Bad(f"{name}('a', 0)", lambda w, f=function: f("a", 0), TYPE, "softmax.*Tensor.*str")
            yield Bad(f"{name}(x, 'a')", lambda w, f=function: f(w.x, "a"), TYPE, f"{name}.*integer.*'a'")
            yield Bad(f"{name}(x, 2)", lambda w, f=function: f(w.x, 2), INDEX, f"{name}.*axis 2")
            yield Bad(f"{name}: dtype", lambda w, f=function: f(w.x, 0, dtype="real"), TYPE, "dtype 'real'")
    for name in ("cat", "stack"):
        function, op = getattr(tx, name), f"({name}|concat)"
        yield Bad(f"{name}([])", lambda w, f=function: f([]), VALUE, f"{op}.*no operands")
        for what in ("a", None, 3, {}):
            match = f"{op}.*list or tuple.*{kind(what)}"
            yield Bad(f"{name}({what!r})", lambda w, f=function, a=what: f(a), TYPE, match)
        yield Bad(f"{name}(x)", lambda w, f=function: f(w.x), TYPE, f"{op}.*list or tuple.*Tensor")
        for what in ("a", None, 1.0, np.ones(3), [1.0]):
            yield Bad(f"{name}([x, {what!r}])", lambda w, f=function, a=what: f([w.x, a]), TYPE, f"{op}.*{kind(what)}")
        yield Bad(f"{name}: ranks", lambda w, f=function: f([w.x, w.v]), SHAPE, rf"{op}.*\[2, 3\].*\[3\]")
        yield Bad(f"{name}: extents", lambda w, f=function: f([w.x, tx.ones(2, 4)]), SHAPE, op)
        yield Bad(f"{name}: axis", lambda w, f=function: f([w.x, w.x], 5), INDEX, f"{op}.*axis 5")
        yield Bad(f"{name}: axis text", lambda w, f=function: f([w.x, w.x], "a"), TYPE, f"{op}.*integer.*'a'")
    for n in (1, 2, 3):
        image, kernel = tx.ones(1, 2, *(4,) * n), tx.ones(2, 2, *(3,) * n)
        for name in (f"conv{n}d", f"conv_transpose{n}d"):
            yield from convolutions(name, n, image, kernel)


def convolutions(name: str, n: int, image: tx.Tensor, kernel: tx.Tensor) -> Iterator[Bad]:
    conv, tag = getattr(F, name), rf"\[{name}\].*"

    def bad(what: str, errors: tuple[type[Exception], ...], match: str, *args: Any, **kwargs: Any) -> Bad:
        return Bad(f"{name}: {what}", lambda w: conv(*args, **kwargs), errors, tag + match)

    yield bad("input text", TYPE, "Tensor.*str", "a", kernel)
    yield bad("no weight", TYPE, "Tensor.*NoneType", image, None)
    yield bad("dtypes", TYPE, "float32.*float64", image, kernel.double())
    yield bad("channels", SHAPE, "", image, tx.ones(3, 3, *(3,) * n))
    yield bad("rank of weight", VALUE, r"rank.*\[3\]", image, tx.ones(3))
    yield bad("rank of input", VALUE, r"rank.*\[2\]", tx.ones(2), kernel)
    yield bad("bias text", TYPE, "Tensor.*str", image, kernel, "a")
    yield bad("bias shape", SHAPE, r"bias.*\[2\].*\[5\]", image, kernel, tx.ones(5))
    yield bad("bias dtype", TYPE, "bias.*float32.*float64", image, kernel, tx.ones(2).double())
    for option in ("stride", "dilation", "padding"):
        yield bad(f"{option} text", (tx.TorshError,), "a", image, kernel, **{option: "a"})
        yield bad(f"{option} 1.5", TYPE, "1.5", image, kernel, **{option: 1.5})
        yield bad(f"{option} None", TYPE, "None", image, kernel, **{option: None})
        yield bad(f"{option} of four", TYPE, "1, 1, 1, 1", image, kernel, **{option: (1, 1, 1, 1)})
        yield bad(f"{option} below", VALUE, f"{option}.*-1", image, kernel, **{option: -1})
    yield bad("stride 0", VALUE, "stride.*0", image, kernel, stride=0)
    yield bad("groups text", TYPE, "groups.*integer.*'a'", image, kernel, groups="a")
    yield bad("groups 0", VALUE, "groups.*0", image, kernel, groups=0)
    yield bad("groups 3", (tx.TorshError, ValueError), "3", image, kernel, groups=3)
    if "transpose" in name:
        yield bad("output_padding", VALUE, "output_padding.*5", image, kernel, output_padding=5)
        yield bad("output_padding text", TYPE, "'a'", image, kernel, output_padding="a")
    else:
        yield bad("kernel too large", (tx.TorshError, ValueError), "9", image, tx.ones(2, 2, *(9,) * n))
        yield bad("same with stride", VALUE, "same.*stride", image, kernel, stride=2, padding="same")
    huge = "too large" if "transpose" not in name else ""
    yield bad("huge padding", (tx.TorshError, ValueError), huge, image, kernel, padding=2**70)


def kind(value: Any) -> str:
    return type(value).__name__


SINGLE = [
    # making tensors
    Bad("tensor: ragged", lambda w: tx.tensor([[1.0], [2.0, 3.0]]), TYPE, "ragged"),
    Bad("tensor: ragged deeper", lambda w: tx.tensor([[1, 2], [3, [4]]]), TYPE, "ragged"),
    Bad("tensor: ragged arrays", lambda w: tx.tensor([np.ones(2), np.ones(3)]), TYPE, "ragged"),
    Bad("tensor: unequal tensors", lambda w: tx.tensor([w.x, w.v]), SHAPE, "stack"),
    Bad("tensor: text", lambda w: tx.tensor("a"), TYPE, "numbers or booleans"),
    Bad("tensor: a list of text", lambda w: tx.tensor(["a", "b"]), TYPE, "numbers or booleans"),
    Bad("tensor: mixed", lambda w: tx.tensor([1, "a"]), TYPE, "numbers or booleans"),
    Bad("tensor: None", lambda w: tx.tensor(None), TYPE, "numbers or booleans"),
    Bad("tensor: [1, None]", lambda w: tx.tensor([1, None]), TYPE, "numbers or booleans"),
    Bad("tensor: a set", lambda w: tx.tensor({1}), TYPE, "numbers or booleans"),
    Bad("tensor: a generator", lambda w: tx.tensor(k for k in range(3)), TYPE, "numbers or booleans"),
    Bad("tensor: objects", lambda w: tx.tensor(np.zeros(2, object)), TYPE, "object"),
    Bad("tensor: dates", lambda w: tx.tensor(np.datetime64("2020-01-01")), TYPE, "datetime64"),
    Bad("tensor: complex", lambda w: tx.tensor(1j), TYPE, "complex"),
    Bad("tensor: complex array", lambda w: tx.tensor(np.array([1j])), TYPE, "complex"),
    Bad("tensor: complex JAX array", lambda w: tx.tensor(jnp.ones(2, "complex64")), TYPE, "complex"),
    Bad("tensor: uint32", lambda w: tx.tensor(np.ones(2, np.uint32)), TYPE, "uint32"),
    Bad("tensor: 2**70", lambda w: tx.tensor(2**70), TYPE, "64 bits"),
    Bad("tensor: 2**64 - 1", lambda w: tx.tensor(2**64 - 1), VALUE, "18446744073709551615.*int64"),
    Bad("tensor: too large for uint8", lambda w: tx.tensor([300], dtype=tx.uint8), VALUE, "300.*uint8"),
    Bad("tensor: too large for int32", lambda w: tx.tensor([1e10], dtype=tx.int32), VALUE, "int32"),
    Bad("tensor: NaN in int64", lambda w: tx.tensor([float("nan")], dtype=tx.int64), VALUE, "NaN.*int64"),
    Bad("tensor: integers that require grad", lambda w: tx.tensor([1], requires_grad=True), NONE, "floating.*int64"),
    Bad("tensor: booleans that require grad", lambda w: tx.tensor([True], requires_grad=True), NONE, "floating.*bool"),
    Bad("tensor: requires_grad text", lambda w: tx.tensor([1.0], requires_grad="a"), TYPE, "requires_grad.*str"),
    Bad("tensor: dtype text", lambda w: tx.tensor([1.0], dtype="real"), TYPE, "dtype 'real'"),
    Bad("tensor: dtype number", lambda w: tx.tensor([1.0], dtype=3), TYPE, "dtype 3"),
    Bad("tensor: dtype complex", lambda w: tx.tensor([1.0], dtype="complex64"), TYPE, "complex"),
    Bad("tensor: device text", lambda w: tx.tensor([1.0], device="abacus"), VALUE, "abacus.*cpu:0"),
    Bad("tensor: device number 99", lambda w: tx.tensor([1.0], device="cpu:99"), VALUE, "cpu:99"),
    Bad("tensor: device number -1", lambda w: tx.tensor([1.0], device="cpu:-1"), VALUE, "cpu:-1"),
    Bad("tensor: device number x", lambda w: tx.tensor([1.0], device="cpu:x"), VALUE, "cpu:x"),
    Bad("tensor: no device name", lambda w: tx.tensor([1.0], device=""), VALUE, "device ''"),
    Bad("tensor: device 3.5", lambda w: tx.tensor([1.0], device=3.5), TYPE, "device.*float"),
    Bad("Tensor(data)", lambda w: tx.Tensor([1.0]), TYPE, "tensor\\(data\\)"),
    Bad("as_tensor: text", lambda w: tx.as_tensor("a"), TYPE, "numbers or booleans"),
    Bad("as_tensor: dtype", lambda w: tx.as_tensor(w.x, dtype="real"), TYPE, "dtype 'real'"),
    Bad("as_tensor: uint32", lambda w: tx.as_tensor(jnp.ones(2, "uint32")), TYPE, "uint32"),
    Bad("from_numpy: a list", lambda w: tx.from_numpy([1.0]), TYPE, "NumPy array.*list"),
    Bad("from_dlpack: a list", lambda w: tx.from_dlpack([1.0]), TYPE, "from_dlpack.*__dlpack__.*list"),
    Bad("from_dlpack: copy", lambda w: tx.from_dlpack(np.ones(1), copy="a"), TYPE, "from_dlpack.*copy.*'a'"),
    Bad("from_dlpack: requires grad", lambda w: tx.from_dlpack(w.x), NONE, "from_dlpack.*requires grad"),
    Bad("from_dlpack: uint32", lambda w: tx.from_dlpack(np.ones(2, "uint32")), TYPE, "uint32"),
    Bad("from_dlpack: device", lambda w: tx.from_dlpack(np.ones(2), device="abacus"), VALUE, "abacus"),
    Bad("from_numpy: text", lambda w: tx.from_numpy(np.array(["a"])), TYPE, "numbers or booleans"),
    Bad("full: text", lambda w: tx.full(2, "a"), TYPE, "full.*number.*str"),
    Bad("full: None", lambda w: tx.full(2, None), TYPE, "full.*number.*NoneType"),
    Bad("full: complex", lambda w: tx.full(2, 1j), TYPE, "full.*number.*complex"),
    Bad("full: size text", lambda w: tx.full("a", 1.0), TYPE, "full.*integer.*'a'"),
    Bad("full: inf in int64", lambda w: tx.full(2, float("inf"), dtype=tx.int64), VALUE, "full.*inf.*int64"),
    Bad("full: 300 in uint8", lambda w: tx.full(2, 300, dtype=tx.uint8), VALUE, "full.*300.*uint8"),
    Bad("full: 2**70", lambda w: tx.full(2, 2**70), VALUE, "full.*int64"),
    Bad("full: 10**400", lambda w: tx.full(2, 10**400, dtype=tx.float32), VALUE, "float64"),
    Bad("full_like: text", lambda w: tx.full_like("a", 1), TYPE, "full_like.*Tensor.*str"),
    Bad("full_like: value text", lambda w: tx.full_like(w.x, "a"), TYPE, "full.*number.*str"),
    Bad("zeros_like: dtype", lambda w: tx.zeros_like(w.x, dtype="real"), TYPE, "dtype 'real'"),
    Bad("arange: text", lambda w: tx.arange("a"), TYPE, "arange.*numbers.*'a'"),
    Bad("arange: a tensor", lambda w: tx.arange(w.x), TYPE, "arange.*numbers"),
    Bad("arange: nothing", lambda w: tx.arange(), TYPE, "arange.*1 to 3"),
    Bad("arange: step 0", lambda w: tx.arange(0, 10, 0), VALUE, "arange.*step 0"),
    Bad("arange: wrong way", lambda w: tx.arange(5, 0), VALUE, "arange.*5 to 0"),
    Bad("arange: inf", lambda w: tx.arange(0, float("inf")), VALUE, "arange.*inf"),
    Bad("arange: NaN", lambda w: tx.arange(float("nan")), VALUE, "arange.*nan"),
    Bad("arange: huge", lambda w: tx.arange(2**62), VALUE, "arange.*too large"),
    Bad("arange: huge bounds", lambda w: tx.arange(0, 2**70, 2**69), VALUE, "arange.*int64"),
    Bad("linspace: text", lambda w: tx.linspace("a", 1, 3), TYPE, "linspace.*numbers.*'a'"),
    Bad("linspace: complex", lambda w: tx.linspace(0, 1j, 3), TYPE, "linspace.*numbers.*1j"),
    Bad("linspace: steps text", lambda w: tx.linspace(0, 1, "a"), TYPE, "linspace.*steps.*integer.*'a'"),
    Bad("linspace: steps 2.5", lambda w: tx.linspace(0, 1, 2.5), TYPE, "linspace.*steps.*2.5"),
    Bad("linspace: steps -1", lambda w: tx.linspace(0, 1, -1), VALUE, "linspace.*negative"),
    Bad("eye: text", lambda w: tx.eye("a"), TYPE, "eye.*integer.*'a'"),
    Bad("eye: -1", lambda w: tx.eye(2, -1), VALUE, "eye.*negative"),
    Bad("eye: 2.5", lambda w: tx.eye(2.5), TYPE, "eye.*integer.*2.5"),
    Bad("randint: text", lambda w: tx.randint("a", (2,)), TYPE, "randint.*integers.*'a'"),
    Bad("randint: no size", lambda w: tx.randint(3), TYPE, "randint"),
    Bad("randint: size text", lambda w: tx.randint(3, "a"), TYPE, "randint.*integer.*'a'"),
    Bad("randint: nothing between", lambda w: tx.randint(5, 2, (2,)), VALUE, "randint.*5.*2"),
    Bad("randint: negative size", lambda w: tx.randint(3, (-1,)), VALUE, "randint.*negative"),
    Bad("randperm: text", lambda w: tx.randperm("a"), VALUE, "randperm.*'a'"),
    Bad("randperm: -1", lambda w: tx.randperm(-1), VALUE, "randperm.*-1"),
    Bad("rand: integers", lambda w: tx.rand(2, dtype=tx.int64), TYPE, "rand.*floating.*int64"),
    Bad("rand: generator", lambda w: tx.rand(2, generator=3), TYPE, "generator.*int"),
    Bad("set_cache_size: text", lambda w: tx.set_cache_size("a"), TYPE, "set_cache_size.*integer.*str"),
    Bad("set_cache_size: 0", lambda w: tx.set_cache_size(0), VALUE, "at least 1"),
    Bad("persistent_cache: a number", lambda w: tx.persistent_cache(3), TYPE, "str or os.PathLike.*int"),
    Bad("persistent_cache: empty", lambda w: tx.persistent_cache(""), VALUE, "local directory.*''"),
    Bad("manual_seed: text", lambda w: tx.manual_seed("a"), TYPE, "seed.*integer.*str"),
    Bad("manual_seed: 2**80", lambda w: tx.manual_seed(2**80), VALUE, "64 bits"),
    Bad("Generator: 1.5", lambda w: tx.Generator(1.5), TYPE, "seed.*integer.*float"),
    Bad("set_state: text", lambda w: tx.Generator(3).set_state("a"), TYPE, "state.*pair.*'a'"),
    Bad("set_state: texts", lambda w: tx.Generator(3).set_state(("a", "b")), TYPE, "set_state.*integer.*'a'"),
    Bad("set_default_dtype: integers", lambda w: tx.set_default_dtype(tx.int64), TYPE, "floating.*int64"),
    Bad("set_default_dtype: text", lambda w: tx.set_default_dtype("real"), TYPE, "dtype 'real'"),
    Bad("promote_types: text", lambda w: tx.promote_types("real", tx.int64), TYPE, "dtype 'real'"),
    # elementwise
    Bad("x + 10**400", lambda w: w.x + 10**400, VALUE, "float64"),
    Bad("depthwise_conv2d: rank", lambda w: F.depthwise_conv2d(w.x, w.x), SHAPE, "depthwise_conv2d.*channel"),
    Bad("separable_conv2d: rank", lambda w: F.separable_conv2d(w.x, w.x, w.x), SHAPE, "depthwise_conv2d.*channel"),
    Bad("i + 2**63", lambda w: w.i + 2**63, VALUE, "add_scalar.*does not fit in int64"),
    Bad("i == 2**70", lambda w: w.i == 2**70, VALUE, "eq.*int64"),
    Bad("maximum(i8, 300)", lambda w: tx.maximum(w.i8, 300), VALUE, "maximum.*300.*int8"),
    Bad("i ** -1", lambda w: w.i**-1, VALUE, "pow.*negative exponent"),
    Bad("i8 ** 300", lambda w: w.i8**300, VALUE, "pow.*300.*int8"),
    Bad("i // 0", lambda w: w.i // 0, VALUE, "floor_divide.*by 0"),
    Bad("i % 0", lambda w: w.i % 0, VALUE, "remainder.*by 0"),
    Bad("-b", lambda w: -w.b, TYPE, "neg.*booleans"),
    Bad("b - b", lambda w: w.b - w.b, TYPE, "sub.*booleans"),
    Bad("1 - b", lambda w: 1 - w.b, TYPE, "sub.*booleans"),
    Bad("~x", lambda w: ~w.x, TYPE, "bitwise_not.*float32"),
    Bad("x & x", lambda w: w.x & w.x, TYPE, "and.*float32"),
    Bad("add: alpha", lambda w: w.x.add(w.v, alpha="a"), TYPE, "mul.*str"),
    Bad("div: rounding_mode", lambda w: w.x.div(w.v, rounding_mode="up"), VALUE, "div.*rounding_mode.*'up'"),
    Bad("clamp: text", lambda w: w.x.clamp(min="a"), TYPE, "clamp.*bound.*str"),
    Bad("clamp: list", lambda w: w.x.clamp(max=[1]), TYPE, "clamp.*bound.*list"),
    Bad("clamp: no bound", lambda w: w.x.clamp(), VALUE, "clamp.*at least one"),
    Bad("clamp: shapes", lambda w: tx.clamp(w.x, min=tx.ones(5)), SHAPE, "clamp"),
    Bad("clamp: 2**70", lambda w: w.i.clamp(min=2**70), VALUE, "clamp.*int64"),
    Bad("where: condition text", lambda w: tx.where("a", w.x, w.x), TYPE, "where.*Tensor.*str"),
    Bad("where: floating condition", lambda w: tx.where(w.x, w.x, w.x), TYPE, "where.*bool.*float32"),
    Bad("where: text", lambda w: tx.where(w.b, w.x, "a"), TYPE, "where.*str"),
    Bad("where: shapes", lambda w: tx.where(w.b, w.x, tx.ones(4)), SHAPE, "where"),
    Bad("masked_fill: mask", lambda w: w.x.masked_fill(w.x, 0), TYPE, "where.*bool.*float32"),
    Bad("masked_fill: text", lambda w: w.x.masked_fill(w.b, "a"), TYPE, "where.*str"),
    Bad("masked_fill: shape", lambda w: w.x.masked_fill(w.b[:2], 0), SHAPE, "where"),
    Bad("mean of integers", lambda w: w.i.mean(), TYPE, "mean.*floating.*int64"),
    Bad("var: correction", lambda w: w.x.var(correction="a"), TYPE, "var.*correction.*'a'"),
    Bad("max of nothing", lambda w: tx.zeros(0).max(), VALUE, "amax.*empty"),
    Bad("argmax of nothing", lambda w: tx.zeros(0, 3).argmax(), VALUE, "argmax.*empty"),
    Bad("sum: dtype", lambda w: w.x.sum(dtype="real"), TYPE, "dtype 'real'"),
    Bad("fmod(i, 0)", lambda w: w.i.fmod(0), VALUE, "fmod.*by 0"),
    Bad("fmod: booleans", lambda w: tx.fmod(w.b, w.b), TYPE, "fmod.*bool"),
    Bad("frac of integers", lambda w: w.i.frac(), TYPE, "frac.*floating.*int64"),
    Bad("bitwise_and: floats", lambda w: tx.bitwise_and(w.x, w.x), TYPE, "bitwise_and.*integers.*float32"),
    Bad("bitwise_left_shift: booleans", lambda w: tx.bitwise_left_shift(w.b, w.b), TYPE, "integers.*bool"),
    Bad("bitwise_or: 1.5", lambda w: tx.bitwise_or(w.i, 1.5), TYPE, "bitwise_or.*integers.*float32"),
    Bad("i >> text", lambda w: w.i >> "a", TYPE, "str"),
    Bad("nan_to_num: text", lambda w: w.x.nan_to_num("a"), TYPE, "nan_to_num.*nan.*'a'"),
    Bad("clamp_min: text", lambda w: w.x.clamp_min("a"), TYPE, "clamp.*bound.*str"),
    Bad("clamp_max: None", lambda w: w.x.clamp_max(None), VALUE, "clamp.*at least one"),
    Bad("lerp: text", lambda w: w.x.lerp(w.x, "a"), TYPE, "lerp.*str"),
    Bad("lerp: a number", lambda w: w.x.lerp(1, 0.5), TYPE, "lerp.*int"),
    Bad("lerp: integers", lambda w: w.i.lerp(w.i, 0.5), TYPE, "lerp.*(floating|fit).*"),
    Bad("addcmul: text", lambda w: w.x.addcmul("a", w.x), TYPE, "addcmul.*str"),
    Bad("addcdiv: text", lambda w: w.x.addcdiv(w.x, "a"), TYPE, "addcdiv.*str"),
    Bad("logsumexp: axis", lambda w: w.x.logsumexp(2), INDEX, "logsumexp.*axis 2"),
    Bad("logsumexp: text", lambda w: tx.logsumexp("a", 0), TYPE, "logsumexp.*str"),
    # products
    Bad("x @ x", lambda w: w.x @ w.x, SHAPE, r"matmul.*3.*2"),
    Bad("v @ s", lambda w: w.v @ w.s, NONE, "matmul"),
    Bad("x @ number", lambda w: w.x @ 2, TYPE, "matmul.*int"),
    Bad("matmul: dtypes", lambda w: w.x @ w.d, TYPE, "matmul.*float32.*float64"),
    Bad("matmul: batches", lambda w: tx.ones(2, 2, 3) @ tx.ones(3, 3, 2), SHAPE, "matmul"),
    # views
    Bad("reshape: count", lambda w: w.x.reshape(4), SHAPE, r"reshape.*6 elements.*\[4\]"),
    Bad("reshape: two unknown", lambda w: w.x.reshape(-1, -1), VALUE, "reshape.*at most one"),
    Bad("reshape: -2", lambda w: w.x.reshape(-2, 3), VALUE, "reshape.*-2"),
    Bad("view: count", lambda w: w.x.view(4), SHAPE, "reshape.*6 elements"),
    Bad("expand: does not grow", lambda w: w.x.expand(4, 3), SHAPE, "expand"),
    Bad("expand: fewer axes", lambda w: w.x.expand(3), SHAPE, "expand.*fewer"),
    Bad("expand: -1 in front", lambda w: w.x.expand(-1, 2, 3), VALUE, "expand.*-1"),
    Bad("expand: huge", lambda w: w.s.expand(2**40, 2**40), VALUE, "expand.*too large"),
    Bad("expand_as: text", lambda w: w.x.expand_as("a"), TYPE, "expand_as.*Tensor.*str"),
    Bad("expand_as: shape", lambda w: w.x.expand_as(w.v), SHAPE, "expand"),
    Bad("permute: too few", lambda w: w.x.permute(0), VALUE, "permute.*rank 2"),
    Bad("permute: twice", lambda w: w.x.permute(0, 0), INDEX, "permute.*twice"),
    Bad("permute: axis", lambda w: w.x.permute(0, 2), INDEX, "permute.*axis 2"),
    Bad("transpose: axis", lambda w: w.x.transpose(0, 5), INDEX, "transpose.*axis 5"),
    Bad("transpose: text", lambda w: w.x.transpose("a", 0), TYPE, "transpose.*integer.*'a'"),
    Bad("t: three axes", lambda w: tx.ones(2, 2, 2).t(), VALUE, r"\[t\].*\[2, 2, 2\]"),
    Bad("mT: one axis", lambda w: w.v.mT, INDEX, r"mT.*\[3\]"),
    Bad("unsqueeze: axis", lambda w: w.x.unsqueeze(4), INDEX, "unsqueeze.*axis 4"),
    Bad("unsqueeze: text", lambda w: w.x.unsqueeze("a"), TYPE, "unsqueeze.*integer.*'a'"),
    Bad("squeeze: axis", lambda w: w.x.squeeze(2), INDEX, "squeeze.*axis 2"),
    Bad("squeeze: 1.5", lambda w: w.x.squeeze(1.5), TYPE, "squeeze.*integer.*1.5"),
    Bad("flatten: order", lambda w: w.x.flatten(1, 0), VALUE, "flatten.*1.*0"),
    Bad("flatten: axis", lambda w: w.x.flatten(0, 2), INDEX, "flatten.*axis 2"),
    Bad("flip: axis", lambda w: w.x.flip(2), INDEX, "flip.*axis 2"),
    Bad("flip: text", lambda w: w.x.flip("a"), TYPE, "flip.*integer.*'a'"),
    Bad("narrow: past the end", lambda w: w.x.narrow(1, 2, 2), INDEX, r"narrow.*\[2, 4\).*axis 1.*extent 3"),
    Bad("narrow: before the start", lambda w: w.x.narrow(0, -5, 1), INDEX, "narrow.*-5"),
    Bad("narrow: start text", lambda w: w.x.narrow(0, "a", 1), TYPE, "narrow.*start.*integer.*'a'"),
    Bad("narrow: start None", lambda w: w.x.narrow(0, None, 1), TYPE, "narrow.*start.*NoneType"),
    Bad("narrow: start 0.5", lambda w: w.x.narrow(0, tx.tensor(0.5), 1), TYPE, "narrow.*start.*Tensor"),
    Bad("narrow: length text", lambda w: w.x.narrow(0, 0, "a"), TYPE, "narrow.*length.*'a'"),
    Bad("narrow: length -1", lambda w: w.x.narrow(0, 0, -1), VALUE, "narrow.*length.*-1"),
    Bad("narrow: huge", lambda w: w.x.narrow(0, 2**70, 1), INDEX, "narrow.*extent 2"),
    Bad("narrow: axis", lambda w: w.x.narrow(2, 0, 1), INDEX, "narrow.*axis 2"),
    Bad("narrow: 0-d", lambda w: w.s.narrow(0, 0, 1), INDEX, "narrow.*0-d"),
    Bad("select: index", lambda w: w.x.select(1, 3), INDEX, "select.*index 3.*axis 1.*extent 3"),
    Bad("select: text", lambda w: w.x.select(0, "a"), TYPE, "select.*index.*integer.*'a'"),
    Bad("select: 1.5", lambda w: w.x.select(0, 1.5), TYPE, "select.*index.*integer.*1.5"),
    Bad("split: 0", lambda w: w.x.split(0), VALUE, "split.*positive.*0"),
    Bad("split: sections", lambda w: w.x.split([1, 5]), VALUE, r"split.*\[1, 5\].*extent 2"),
    Bad("split: text", lambda w: w.x.split("a"), TYPE, "split.*size.*integer.*'a'"),
    Bad("split: a text section", lambda w: w.x.split([1, "a"]), TYPE, "split.*section.*integer.*'a'"),
    Bad("split: axis", lambda w: w.x.split(1, 5), INDEX, "split.*axis 5"),
    Bad("chunk: 0", lambda w: w.x.chunk(0), VALUE, "chunk.*at least 1.*0"),
    Bad("chunk: text", lambda w: w.x.chunk("a"), TYPE, "chunk.*integer.*'a'"),
    Bad("unbind: axis", lambda w: w.x.unbind(2), INDEX, "unbind.*axis 2"),
    Bad("unbind: 0-d", lambda w: w.s.unbind(), INDEX, "unbind.*0-d"),
    Bad("cat: 0-d", lambda w: tx.cat([w.s, w.s]), VALUE, "concat.*rank 0.*stack"),
    # indexing
    Bad("x[5]", lambda w: w.x[5], INDEX, "getitem.*index 5.*axis 0.*extent 2"),
    Bad("x[-5]", lambda w: w.x[-5], INDEX, "getitem.*index -5"),
    Bad("x[0, 3]", lambda w: w.x[0, 3], INDEX, "getitem.*index 3.*extent 3"),
    Bad("x[0, 0, 0]", lambda w: w.x[0, 0, 0], INDEX, "getitem.*3 indices.*rank 2"),
    Bad("s[0]", lambda w: w.s[0], INDEX, "getitem.*1 indices.*rank 0"),
    Bad("x[..., ...]", lambda w: w.x[..., ...], VALUE, "getitem.*only one"),
    Bad("x['a']", lambda w: w.x["a"], TYPE, "getitem.*'a'"),
    Bad("x[1.5]", lambda w: w.x[1.5], TYPE, "getitem.*1.5"),
    Bad("x[None-like object]", lambda w: w.x[{}], TYPE, "getitem"),
    Bad("x['a':]", lambda w: w.x["a":], TYPE, "getitem.*integer.*'a'"),
    Bad("x[1.5:]", lambda w: w.x[1.5:], TYPE, "getitem.*integer.*1.5"),
    Bad("x[::0]", lambda w: w.x[::0], VALUE, "getitem.*step.*0"),
    Bad("x[::-1]", lambda w: w.x[::-1], VALUE, "getitem.*step.*flip"),
    Bad("x[[0.5]]", lambda w: w.x[[0.5]], TYPE, "getitem"),
    Bad("x[['a']]", lambda w: w.x[["a"]], TYPE, "getitem"),
    Bad("x[[5]]", lambda w: w.x[[5]], INDEX, "getitem.*index 5.*axis 0.*extent 2"),
    Bad("x[[2**70]]", lambda w: w.x[[2**70]], TYPE, "getitem"),
    Bad("x[[[0], [0, 1]]]", lambda w: w.x[[[0], [0, 1]],], TYPE, "getitem.*ragged"),
    Bad("x[[0, 1], [0, 1, 2]]", lambda w: w.x[[0, 1], [0, 1, 2]], SHAPE, r"getitem.*broadcast"),
    Bad("x[floats]", lambda w: w.x[tx.tensor([0.5])], TYPE, "getitem.*integer or bool.*float32"),
    Bad("x[NumPy, out of range]", lambda w: w.x[np.array([9])], INDEX, "getitem.*index 9"),
    Bad("x[JAX, out of range]", lambda w: w.x[jnp.array([7])], INDEX, "getitem.*index 7"),
    Bad("x[mask of another shape]", lambda w: w.x[w.b], INDEX, r"getitem.*mask.*\[3\].*\[2, 3\]"),
    Bad("x[two masks]", lambda w: w.v[w.b, w.b], INDEX, "getitem"),
    Bad("gather: dim", lambda w: tx.gather(w.x, 2, tx.tensor([[0]])), INDEX, "axis 2"),
    Bad("gather: text", lambda w: tx.gather(w.x, "a", tx.tensor([[0]])), TYPE, "integer.*'a'"),
    Bad("gather: no tensor", lambda w: tx.gather(w.x, 0, [[0]]), TYPE, "gather.*list"),
    Bad("gather: rank", lambda w: tx.gather(w.x, 0, w.i), SHAPE, "rank"),
    Bad("gather: extent", lambda w: tx.gather(w.x, 0, tx.tensor([[0, 0, 0, 0]])), SHAPE, "extent"),
    Bad("gather: floats", lambda w: tx.gather(w.x, 0, w.x), TYPE, "integers.*float32"),
    Bad("gather: out of range", lambda w: tx.gather(w.x, 0, tx.tensor([[2]])), INDEX, "index 2"),
    Bad("gather: negative", lambda w: tx.gather(w.x, 0, tx.tensor([[-1]])), INDEX, "index -1"),
    Bad("take_along_dim: text", lambda w: w.x.take_along_dim("a", 0), TYPE, "take_along_dim.*str"),
    Bad("take_along_dim: floats", lambda w: w.x.take_along_dim(w.x, 0), TYPE, "take_along_dim.*integers"),
    Bad("var: both", lambda w: w.x.var(unbiased=True, correction=1), TYPE, "var.*unbiased.*correction"),
    Bad("arange: two ends", lambda w: tx.arange(0, 3, end=3), TYPE, "arange.*end"),
    Bad("masked_fill: axes", lambda w: w.x.masked_fill(w.x > 0, w.x), SHAPE, "masked_fill.*0-d"),
    Bad("index_select: rank", lambda w: w.x.index_select(0, tx.tensor([[0]])), VALUE, "index_select.*1 axis"),
    Bad("index_select: out of range", lambda w: w.x.index_select(0, tx.tensor([2])), INDEX, "index 2"),
    Bad("index_select: floats", lambda w: w.x.index_select(0, tx.tensor([0.0])), TYPE, "integers.*float32"),
    Bad("index_select: axis", lambda w: w.x.index_select(2, w.i), INDEX, "index_select.*axis 2"),
    # Python's protocols
    Bad("bool(x)", lambda w: bool(w.x), NONE, "6 elements.*any"),
    Bad("float(x)", lambda w: float(w.x), TYPE, "one element.*6"),
    Bad("int(x)", lambda w: int(w.x), TYPE, "one element"),
    Bad("x.item()", lambda w: w.x.item(), TYPE, "item.*one element.*6"),
    Bad("range(s)", lambda w: range(w.s), TYPE, "integer tensor.*float32"),
    Bad("len(s)", lambda w: len(w.s), TYPE, "len.*0-d"),
    Bad("iter(s)", lambda w: list(w.s), TYPE, "0-d"),
    Bad("x.numpy()", lambda w: w.x.numpy(), NONE, "numpy.*detach"),
    Bad("np.asarray(x)", lambda w: np.asarray(w.x), NONE, "numpy.*detach"),
    Bad("f'{x:.2f}'", lambda w: f"{w.x:.2f}", TYPE, "'.2f'.*one element"),
    Bad("x.size(2)", lambda w: w.x.size(2), INDEX, "size.*axis 2"),
    Bad("x.size('a')", lambda w: w.x.size("a"), TYPE, "size.*integer.*'a'"),
    Bad("s.size(0)", lambda w: w.s.size(0), INDEX, "size.*0-d"),
    Bad("to: text", lambda w: w.x.to("real"), TYPE, "dtype 'real'"),
    Bad("to: device", lambda w: w.x.to("cpu:77"), VALUE, "cpu:77"),
    Bad("to: device number", lambda w: w.x.to(device=4), TYPE, "device.*int"),
    Bad("to: complex", lambda w: w.x.to(complex), TYPE, "complex"),
    Bad("type_as: text", lambda w: w.x.type_as("a"), TYPE, "type_as.*str"),
    # gradients
    Bad("integers require grad", lambda w: w.i.requires_grad_(), NONE, "floating.*int64"),
    Bad("booleans require grad", lambda w: setattr(w.b, "requires_grad", True), NONE, "floating.*bool"),
    Bad("requires_grad_('a')", lambda w: w.x.requires_grad_("a"), TYPE, "True or False.*str"),
    Bad("a result stops requiring", lambda w: (w.x * 2).requires_grad_(False), NONE, "leaf"),
    Bad("backward: several elements", lambda w: (w.x * 2).backward(), NONE, r"\[2, 3\].*gradient"),
    Bad("backward: nothing to do", lambda w: w.x.detach().sum().backward(), NONE, "does not require grad"),
    Bad("backward: integers", lambda w: w.i.sum().backward(), NONE, "does not require grad"),
    Bad("backward: shape", lambda w: (w.x * 2).backward(tx.ones(2)), SHAPE, r"\[2, 3\].*\[2\]"),
    Bad("backward: broadcastable", lambda w: w.x.sum().backward(tx.ones(1)), SHAPE, r"\[\].*\[1\]"),
    Bad("backward: dtype", lambda w: (w.v * 2).backward(w.d), TYPE, "float32.*float64"),
    Bad("backward: integer seed", lambda w: w.x.sum().backward(tx.tensor(1)), TYPE, "float32.*int64"),
    Bad("backward: text", lambda w: w.x.sum().backward("a"), TYPE, "numbers or booleans"),
    Bad("backward: a ragged list", lambda w: w.x.sum().backward([[1.0], [1.0, 2.0]]), TYPE, "ragged"),
    Bad("retain_grad: no graph", lambda w: w.x.detach().retain_grad(), NONE, "retain_grad.*requires grad"),
    Bad("grad = number", lambda w: setattr(w.x, "grad", 1), TYPE, "Tensor or None.*int"),
    Bad("grad = other shape", lambda w: setattr(w.x, "grad", tx.ones(3)), SHAPE, r"grad.*\[2, 3\].*\[3\]"),
    Bad("grad = other dtype", lambda w: setattr(w.v, "grad", w.d), TYPE, "grad.*float32.*float64"),
    Bad("grad = itself", lambda w: setattr(w.x, "grad", w.x), NONE, "its own gradient"),
    Bad("grad: output text", lambda w: tx.autograd.grad("a", w.x), TYPE, "grad.*Tensors.*'a'"),
    Bad("grad: input text", lambda w: tx.autograd.grad(w.x.sum(), "a"), TYPE, "grad.*Tensors.*'a'"),
    Bad("grad: None", lambda w: tx.autograd.grad(None, w.x), TYPE, "grad.*Tensors.*NoneType"),
    Bad("grad: unused", lambda w: tx.autograd.grad(w.x.sum(), w.v), NONE, "input 0.*allow_unused"),
    Bad("grad: several elements", lambda w: tx.autograd.grad(w.x * 2, w.x), NONE, r"\[2, 3\]"),
    Bad("grad: seeds", lambda w: tx.autograd.grad([w.s * 1, w.s * 2], w.s, [w.s]), VALUE, "2 outputs.*1"),
    Bad("grad: seed shape", lambda w: tx.autograd.grad(w.s * 1, w.s, tx.ones(2)), SHAPE, r"\[\].*\[2\]"),
    Bad("backward: inputs empty", lambda w: w.x.sum().backward(inputs=[]), VALUE, "backward.*inputs are empty"),
    Bad("backward: inputs number", lambda w: w.x.sum().backward(inputs=1), TYPE, "backward.*inputs.*1"),
    Bad("backward: inputs text", lambda w: w.x.sum().backward(inputs=["a"]), TYPE, "backward.*inputs.*'a'"),
    Bad("backward: inputs no grad", lambda w: w.x.sum().backward(inputs=[w.d]), NONE, "does not require grad"),
    Bad("backward: no root", lambda w: tx.autograd.backward([w.x.sum(), w.d.sum()]), NONE, "does not require grad"),
    Bad("backward: root text", lambda w: tx.autograd.backward("a"), TYPE, "backward.*tensors.*'a'"),
    Bad("backward: seeds", lambda w: tx.autograd.backward([w.s * 1, w.s * 2], [w.s]), VALUE, "2 tensors.*1"),
    Bad("grad: no inputs", lambda w: tx.autograd.grad(w.x.sum(), []), VALUE, "grad.*inputs are empty"),
    Bad("grad: batch", lambda w: tx.autograd.grad(w.v * 1, w.v, w.v, is_grads_batched=True), SHAPE, r"\[3, 3\].*\[3\]"),
    Bad("jacobian: text", lambda w: tx.autograd.functional.jacobian(lambda x: x, "a"), TYPE, "jacobian.*'a'"),
    Bad("hessian: several", lambda w: tx.autograd.functional.hessian(lambda x: x, w.v), VALUE, r"hessian.*\[3\]"),
    Bad("vhp: v", lambda w: tx.autograd.functional.vhp(lambda x: x.sum(), w.v, w.x), SHAPE, r"vhp.*\[3\].*\[2, 3\]"),
    Bad("func.grad: integers", lambda w: tx.func.grad(lambda i: i.sum())(w.i), TYPE, "grad.*floating.*int64"),
    Bad("func.vmap: an axis", lambda w: tx.func.vmap(lambda v: v, 1)(w.v), INDEX, r"vmap.*axis 1.*\[3\]"),
    Bad("func.jacrev: text", lambda w: tx.func.jacrev(lambda v: "a")(w.v), TYPE, "jacrev.*'a'"),
    Bad("functional_call: text", lambda w: tx.func.functional_call("a", {}), TYPE, "functional_call.*'a'"),
    Bad("detach_: a view", lambda w: w.x.t().detach_(), NONE, "view.*detach\\(\\)"),
    Bad("set_grad_enabled('a')", lambda w: tx.set_grad_enabled("a"), TYPE, "True or False.*str"),
    Bad("no_grad(3)", lambda w: tx.no_grad(3), TYPE, "no_grad.*function.*int"),
    Bad("enable_grad('a')", lambda w: tx.enable_grad("a"), TYPE, "enable_grad.*function.*str"),
    # writing
    Bad("a leaf written", lambda w: w.x.add_(1), NONE, "add_.*leaf.*no_grad"),
    Bad("a leaf zeroed", lambda w: w.x.zero_(), NONE, "(zero|fill)_.*leaf.*no_grad"),
    Bad("in place: shape", lambda w: w.v.detach().add_(w.x), SHAPE, r"add_.*\[3\].*\[2, 3\]"),
    Bad("in place: dtype", lambda w: w.i.add_(1.5), TYPE, "add_.*float32.*int64"),
    Bad("in place: int division", lambda w: w.i.div_(2), TYPE, "div_.*float32.*int64"),
    Bad("in place: text", lambda w: w.i.mul_("a"), TYPE, "mul.*str"),
    Bad("fill_: text", lambda w: w.i.fill_("a"), TYPE, "fill_.*number.*str"),
    Bad("fill_: several", lambda w: w.i.fill_(w.v), TYPE, r"fill_.*0-d.*\[3\]"),
    Bad("fill_: 2**70", lambda w: w.i.fill_(2**70), VALUE, "int64"),
    Bad("fill_: NaN in int64", lambda w: w.i.fill_(float("nan")), VALUE, "nan.*int64"),
    Bad("copy_: text", lambda w: w.i.copy_("a"), TYPE, "copy_.*str"),
    Bad("copy_: shape", lambda w: w.i.copy_(w.x), SHAPE, "expand"),
    Bad("addcmul_: text", lambda w: w.v.detach().addcmul_("a", w.v), TYPE, "mul.*str"),
    Bad("addcdiv_: text", lambda w: w.v.detach().addcdiv_(w.v, "a"), TYPE, "div.*str"),
    Bad("x[0] = 1", lambda w: w.x.__setitem__(0, 1), NONE, "view of a leaf.*no_grad"),
    Bad("x[0] = text", lambda w: w.d.__setitem__(0, "a"), TYPE, "setitem.*number or a Tensor.*str"),
    Bad("x[9] = 1", lambda w: w.d.__setitem__(9, 1), INDEX, "index 9"),
    # nn.functional
    Bad("relu: text", lambda w: F.relu("a"), TYPE, "relu.*Tensor.*str"),
    Bad("gelu: integers", lambda w: F.gelu(w.i), TYPE, "gelu.*floating.*int64"),
    Bad("gelu: approximate", lambda w: F.gelu(w.x, "no"), VALUE, "gelu.*approximate.*'no'"),
    Bad("gelu: approximate list", lambda w: F.gelu(w.x, [1]), VALUE, "gelu.*approximate"),
    Bad("leaky_relu: text", lambda w: F.leaky_relu(w.x, "a"), TYPE, "leaky_relu.*negative_slope.*'a'"),
    Bad("leaky_relu: a tensor", lambda w: F.leaky_relu(w.x, w.x), TYPE, "leaky_relu.*negative_slope.*Tensor"),
    Bad("leaky_relu: 10**400", lambda w: F.leaky_relu(w.x, 10**400), VALUE, "float64"),
    Bad("linear: text", lambda w: F.linear(w.x, "a"), TYPE, "linear.*Tensor.*str"),
    Bad("linear: extents", lambda w: F.linear(w.x, tx.ones(4, 4)), SHAPE, "matmul.*3.*4"),
    Bad("linear: rank", lambda w: F.linear(w.x, tx.ones(2, 2, 3)), SHAPE, "linear.*weight"),
    Bad("linear: bias shape", lambda w: F.linear(w.x, w.x, tx.ones(5)), SHAPE, r"linear.*bias.*\[2\].*\[5\]"),
    Bad("linear: bias number", lambda w: F.linear(w.x, w.x, 1.0), TYPE, "linear.*Tensor.*float"),
    Bad("linear: bias dtype", lambda w: F.linear(w.x, w.x, w.d[:2]), TYPE, "linear.*bias.*float32.*float64"),
    Bad("mse_loss: text", lambda w: F.mse_loss(w.x, "a"), TYPE, "mse_loss.*Tensor.*str"),
    Bad("mse_loss: shapes", lambda w: F.mse_loss(w.x, tx.ones(4)), SHAPE, "sub"),
    Bad("mse_loss: reduction", lambda w: F.mse_loss(w.x, w.x, "most"), VALUE, "mse_loss.*reduction.*'most'"),
    Bad("nll_loss: text", lambda w: F.nll_loss(w.x, "a"), TYPE, "nll_loss.*Tensor.*str"),
    Bad("nll_loss: float target", lambda w: F.nll_loss(w.x, tx.ones(2)), TYPE, "nll_loss.*integer.*float32"),
    Bad("nll_loss: target shape", lambda w: F.nll_loss(w.x, tx.tensor([0, 1, 2])), SHAPE, r"nll_loss.*\[2\].*\[3\]"),
    Bad("nll_loss: class 3", lambda w: F.nll_loss(w.x, tx.tensor([0, 3])), INDEX, "nll_loss.*3.*3 classes"),
    Bad("nll_loss: class -1", lambda w: F.nll_loss(w.x, tx.tensor([0, -1])), INDEX, "nll_loss.*-1.*3 classes"),
    Bad("nll_loss: 0-d", lambda w: F.nll_loss(w.s, tx.tensor(0)), SHAPE, "nll_loss.*class axis"),
    Bad("nll_loss: weight", lambda w: F.nll_loss(w.x, w.i, tx.ones(2)), SHAPE, r"nll_loss.*weight.*\[3\].*\[2\]"),
    Bad("nll_loss: weight list", lambda w: F.nll_loss(w.x, w.i, [1.0] * 3), TYPE, "nll_loss.*Tensor.*list"),
    Bad("nll_loss: weight dtype", lambda w: F.nll_loss(w.x, w.i, w.d), TYPE, "nll_loss.*weight.*float64"),
    Bad("nll_loss: ignore_index", lambda w: F.nll_loss(w.x, w.i, None, 1.5), TYPE, "nll_loss.*ignore_index.*1.5"),
    Bad("nll_loss: reduction", lambda w: F.nll_loss(w.x, w.i, reduction="most"), VALUE, "reduction.*'most'"),
    Bad("cross_entropy: text", lambda w: F.cross_entropy(w.x, "a"), TYPE, "cross_entropy.*Tensor.*str"),
    Bad("cross_entropy: class 3", lambda w: F.cross_entropy(w.x, tx.tensor([0, 3])), INDEX, "3.*3 classes"),
    Bad("cross_entropy: probabilities", lambda w: F.cross_entropy(w.x, w.v), SHAPE, r"\[2, 3\].*\[3\]"),
    Bad("cross_entropy: 0-d", lambda w: F.cross_entropy(w.s, tx.tensor(0)), SHAPE, "class axis"),
    Bad("cross_entropy: weight", lambda w: F.cross_entropy(w.x, w.i, "a"), TYPE, "cross_entropy.*str"),
    Bad("cross_entropy: smoothing", lambda w: F.cross_entropy(w.x, w.i, label_smoothing="a"), TYPE, "smoothing.*'a'"),
    Bad("cross_entropy: smoothing 2", lambda w: F.cross_entropy(w.x, w.i, label_smoothing=2), VALUE, "smoothing.*2"),
    Bad("one_hot: floats", lambda w: F.one_hot(w.x), TYPE, "one_hot.*integers.*float32"),
    Bad("one_hot: too few", lambda w: F.one_hot(w.i, 1), INDEX, "one_hot.*1 is out of range for 1 classes"),
    Bad("one_hot: negative", lambda w: F.one_hot(tx.tensor([-1]), 3), INDEX, "one_hot.*-1"),
    Bad("one_hot: text", lambda w: F.one_hot(w.i, "a"), TYPE, "one_hot.*num_classes.*'a'"),
    Bad("one_hot: -5", lambda w: F.one_hot(w.i, -5), VALUE, "one_hot.*num_classes.*-5"),
    Bad("one_hot: of nothing", lambda w: F.one_hot(tx.zeros(0, dtype=tx.int64)), VALUE, "one_hot.*num_classes"),
    Bad("unfold: text", lambda w: F.unfold("a", 2), TYPE, "unfold.*Tensor.*str"),
    Bad("unfold: rank", lambda w: F.unfold(w.x, 2), SHAPE, "unfold.*H.*W"),
    Bad("unfold: kernel text", lambda w: F.unfold(tx.ones(1, 1, 3, 3), "a"), TYPE, "unfold.*integer.*'a'"),
    Bad("unfold: kernel 5", lambda w: F.unfold(tx.ones(1, 1, 3, 3), 5), (tx.TorshError, ValueError), "im2col_2d.*5"),
    Bad("unfold: kernel 0", lambda w: F.unfold(tx.ones(1, 1, 3, 3), 0), VALUE, "im2col_2d.*kernel.*0"),
    Bad("unfold: stride 0", lambda w: F.unfold(tx.ones(1, 1, 3, 3), 2, stride=0), VALUE, "im2col_2d.*stride.*0"),
    # nn.functional: activations, losses, layers
    *(
        Bad(f"{name}: {what!r}", lambda w, n=name, a=what: getattr(F, n)(a), TYPE, rf"\[{name}\].*Tensor.*{kind(what)}")
        for name in words(
            "silu mish logsigmoid hardswish hardsigmoid softplus elu selu celu hardtanh relu6 hardshrink softshrink "
            "softsign tanhshrink glu dropout normalize"
        )
        for what in ("a", None, [1.0])
    ),
    *(
        Bad(f"{name}: integers", lambda w, n=name: getattr(F, n)(w.i), TYPE, "floating.*int64")
        for name in words("silu mish logsigmoid hardswish hardsigmoid softplus elu selu celu hardshrink softshrink")
    ),
    *(
        Bad(f"{name}: {what!r}", lambda w, n=name, a=what: getattr(F, n)(w.x, a), TYPE, rf"\[{name}\].*{kind(what)}")
        for name in words(
            "l1_loss huber_loss smooth_l1_loss binary_cross_entropy binary_cross_entropy_with_logits kl_div "
            "hinge_embedding_loss soft_margin_loss multilabel_soft_margin_loss multi_margin_loss poisson_nll_loss "
            "cosine_similarity pairwise_distance prelu embedding"
        )
        for what in ("a", None, [1.0])
    ),
    *(
        Bad(f"{name}: reduction", lambda w, n=name: getattr(F, n)(w.x, w.x, reduction="most"), VALUE, "'most'")
        for name in words(
            "l1_loss huber_loss smooth_l1_loss binary_cross_entropy binary_cross_entropy_with_logits kl_div "
            "hinge_embedding_loss soft_margin_loss multilabel_soft_margin_loss poisson_nll_loss"
        )
    ),
    *(
        Bad(f"{name}: shapes", lambda w, n=name: getattr(F, n)(w.x, tx.ones(5)), SHAPE, r"\[5\]")
        for name in words("l1_loss huber_loss binary_cross_entropy binary_cross_entropy_with_logits cosine_similarity")
    ),
    Bad("softplus: beta", lambda w: F.softplus(w.x, "a"), TYPE, "softplus.*beta.*'a'"),
    Bad("celu: alpha 0", lambda w: F.celu(w.x, 0), VALUE, "celu.*alpha"),
    Bad("hardtanh: bounds", lambda w: F.hardtanh(w.x, 2, 1), VALUE, "hardtanh.*2.*1"),
    Bad("hardtanh: booleans", lambda w: F.hardtanh(w.b), TYPE, "hardtanh.*bool"),
    Bad("relu6: booleans", lambda w: F.relu6(w.b), TYPE, "relu6.*bool"),
    Bad("threshold: text", lambda w: F.threshold(w.x, "a", 1), TYPE, "threshold.*'a'"),
    Bad("threshold: no Tensor", lambda w: F.threshold("a", 1, 1), TYPE, "threshold.*Tensor.*str"),
    Bad("softshrink: -1", lambda w: F.softshrink(w.x, -1), VALUE, "softshrink.*negative"),
    Bad("prelu: shape", lambda w: F.prelu(w.x, tx.ones(5)), SHAPE, r"prelu.*\[3\].*\[5\]"),
    Bad("prelu: dtype", lambda w: F.prelu(w.x, w.d), TYPE, "prelu.*float32.*float64"),
    Bad("glu: odd", lambda w: F.glu(w.x), VALUE, "glu.*even.*axis 1"),
    Bad("glu: axis", lambda w: F.glu(w.x, 2), INDEX, "glu.*axis 2"),
    Bad("softmin: text", lambda w: F.softmin("a", 0), TYPE, "softmin.*str"),
    Bad("huber_loss: delta", lambda w: F.huber_loss(w.x, w.x, delta=0), VALUE, "huber_loss.*delta.*0"),
    Bad("smooth_l1_loss: beta", lambda w: F.smooth_l1_loss(w.x, w.x, beta=-1), VALUE, "smooth_l1_loss.*beta.*-1"),
    Bad("l1_loss: weight", lambda w: F.l1_loss(w.x, w.x, weight=w.v), SHAPE, r"l1_loss.*weight.*\[2, 3\].*\[3\]"),
    Bad("kl_div: integers", lambda w: F.kl_div(w.i, w.i), TYPE, "kl_div.*floating.*int64"),
    Bad("cosine_embedding_loss: text", lambda w: F.cosine_embedding_loss(w.x, w.x, "a"), TYPE, "cosine_emb.*str"),
    Bad("cosine_embedding_loss: shape", lambda w: F.cosine_embedding_loss(w.v, w.v, w.i), SHAPE, "cosine_emb.*axis"),
    Bad("margin_ranking_loss: text", lambda w: F.margin_ranking_loss(w.x, w.x, "a"), TYPE, "margin_ranking.*str"),
    Bad("multi_margin_loss: class", lambda w: F.multi_margin_loss(w.x, tx.tensor([0, 3])), INDEX, "3.*3 classes"),
    Bad("multi_margin_loss: p", lambda w: F.multi_margin_loss(w.x, w.i, 3), VALUE, "multi_margin_loss.*p.*3"),
    Bad("triplet_margin_loss: text", lambda w: F.triplet_margin_loss(w.x, w.x, "a"), TYPE, "triplet.*str"),
    Bad("triplet_margin_loss: 0", lambda w: F.triplet_margin_loss(w.x, w.x, w.x, 0), VALUE, "triplet.*margin.*0"),
    Bad("gaussian_nll_loss: text", lambda w: F.gaussian_nll_loss(w.x, w.x, "a"), TYPE, "gaussian.*str"),
    Bad("gaussian_nll_loss: var", lambda w: F.gaussian_nll_loss(w.x, w.x, tx.ones(5)), SHAPE, "gaussian.*var"),
    Bad("gaussian_nll_loss: eps", lambda w: F.gaussian_nll_loss(w.x, w.x, w.x, eps=0), VALUE, "gaussian.*eps.*0"),
    Bad("cosine_similarity: axis", lambda w: F.cosine_similarity(w.x, w.x, 2), INDEX, "cosine_similarity.*axis 2"),
    Bad("pairwise_distance: p", lambda w: F.pairwise_distance(w.x, w.x, "a"), TYPE, "pairwise_distance.*p .*'a'"),
    Bad("normalize: integers", lambda w: F.normalize(w.i, dim=0), TYPE, "normalize.*floating.*int64"),
    Bad("normalize: axis", lambda w: F.normalize(w.v), INDEX, "normalize.*axis 1"),
    Bad("dropout: 2", lambda w: F.dropout(w.x, 2), VALUE, r"dropout.*\[0, 1\].*2"),
    Bad("dropout: training", lambda w: F.dropout(w.x, 0.5, 1), TYPE, "dropout.*training.*1"),
    Bad("dropout: generator", lambda w: F.dropout(w.x, generator=3), TYPE, "generator.*int"),
    Bad("embedding: floats", lambda w: F.embedding(w.x, w.x), TYPE, "embedding.*integers.*float32"),
    Bad("embedding: rank", lambda w: F.embedding(w.i, w.v), SHAPE, r"embedding.*V.*\[3\]"),
    Bad("embedding: out of range", lambda w: F.embedding(tx.tensor([2]), w.x), INDEX, "index 2"),
    Bad("embedding: padding_idx", lambda w: F.embedding(w.i, w.x, 2), INDEX, "padding_idx 2"),
    Bad("bilinear: shapes", lambda w: F.bilinear(w.x, w.x, tx.ones(2, 3, 4)), SHAPE, "bilinear"),
    Bad("bilinear: text", lambda w: F.bilinear(w.x, w.x, "a"), TYPE, "bilinear.*str"),
    Bad("attention: text", lambda w: F.scaled_dot_product_attention(w.x, w.x, "a"), TYPE, "attention.*str"),
    Bad("attention: rank", lambda w: F.scaled_dot_product_attention(w.v, w.x, w.x), SHAPE, r"attention.*\[3\]"),
    Bad(
        "attention: two masks",
        lambda w: F.scaled_dot_product_attention(w.x, w.x, w.x, w.x, is_causal=True),
        VALUE,
        "attention.*not both",
    ),
    Bad(
        "attention: mask dtype",
        lambda w: F.scaled_dot_product_attention(w.x, w.x, w.x, tx.ones(2, 2).double()),
        TYPE,
        "attention.*attn_mask.*float64",
    ),
    # custom ops
    Bad("compile: no function", lambda w: tx.compile(3), TYPE, "compile takes a function.*int"),
    Bad("compile: whole", lambda w: tx.compile(abs, whole=1), TYPE, "whole must be True or False.*1"),
    Bad("compile: a read", lambda w: tx.compile(lambda: w.v.sum().item())(), NONE, "read inside.*step.*where"),
    Bad("compile: a history", lambda w: tx.compile(lambda: w.v * 2)(), NONE, r"requires grad.*detach\(\)"),
    Bad("compile: kept", lambda w: tx.compile(lambda: setattr(w, "y", w.i * 2))(), NONE, "kept.*return it.*copy_"),
    Bad("custom_op: no name", lambda w: tx.custom_op(3, abs), TYPE, "custom_op.*name.*function"),
    Bad("custom_op: no function", lambda w: tx.custom_op("a", 3), TYPE, "custom_op.*name.*function"),
    Bad("custom_op: operand", lambda w: tx.custom_op("twice", lambda x: x)("a"), TYPE, "twice.*Tensor.*str"),
    Bad("custom_op: result", lambda w: tx.custom_op("twice", lambda x: "a")(w.v), TYPE, "twice.*one array.*str"),
    Bad("custom_op: results", lambda w: tx.custom_op("two", lambda x: (x, x))(w.v), TYPE, "two.*one array.*tuple"),
    Bad("custom_op: no rule", lambda w: tx.custom_op("f", lambda x: x)(w.v).sum().backward(), NONE, r"custom\(f\)"),
    Bad("register_jvp: a number", lambda w: tx.custom_op("f", abs).register_jvp(3), TYPE, "derivative.*function.*int"),
    Bad("register_hook: a number", lambda w: w.v.register_hook(3), TYPE, "register_hook.*function.*int 3"),
    Bad("register_hook: no gradient", lambda w: w.d.register_hook(abs), NONE, "register_hook.*require grad"),
    Bad(
        "register_post_accumulate_grad_hook: a result",
        lambda w: (w.v * 2).register_post_accumulate_grad_hook(abs),
        NONE,
        "register_post_accumulate_grad_hook.*no leaf",
    ),
    Bad(
        "register_hook: a shape",
        lambda w: ((y := w.v * 2).register_hook(lambda g: g.sum()), y.sum().backward()),
        SHAPE,
        r"hook .*same shape.*expected \[3\], got \[\]",
    ),
    Bad("register_vjp: a number", lambda w: tx.custom_op("f", abs).register_vjp(3), TYPE, "derivative.*function.*int"),
]

TABLE = [*families(), *SINGLE, *(Bad(*row) for row in (*bad_breadth.ROWS, *bad_names.ROWS))]


@pytest.mark.parametrize("bad", TABLE, ids=[bad.what for bad in TABLE])
def test_refused(bad: Bad) -> None:
    w = world()
    with pytest.raises(tx.TorshError, match=bad.match) as caught:
        bad.call(w)
    for error in bad.errors:
        assert isinstance(caught.value, error), f"{type(caught.value).__mro__} lacks {error.__name__}"
    assert tx.is_grad_enabled()
    for leaf, before in zip((w.x, w.v, w.s), w.grads, strict=True):
        assert leaf.grad is before
    (w.x.sum() * w.s + w.v.sum()).backward()
    assert w.x.grad.tolist() == [[3.0] * 3] * 2
    assert w.v.grad.tolist() == [2.0] * 3
    assert w.s.grad.item() == 22.0


# What takes nothing that could be wrong, or is a class or a transform with tests of its own.
ELSEWHERE = words(
    "is_grad_enabled get_default_dtype Tensor Report Tape CustomOp Generator eager grad hessian jacfwd jacrev jit jvp "
    "linearize value_and_grad vjp vmap checkpoint record crosscheck backward explain stats clear_cache "
    "data device dtype grad_fn is_leaf ndim requires_grad shape T contiguous is_contiguous is_floating_point numel "
    "element_size dim detach jax tolist cpu double half bfloat16 long float int bool byte char short "
    "is_autocast_enabled get_autocast_dtype get_float32_matmul_precision is_tensor is_signed nbytes itemsize is_cpu "
    "is_cuda is_sparse is_quantized positive real"
)


def test_every_public_function_is_in_the_table() -> None:
    covered = {*UNARY, *BINARY, *SHAPED, *VIEWS, *REDUCTIONS, "softmax", "log_softmax", "cat", "concat", "stack"}
    covered |= {bad.what.split(":")[0].split("(")[0] for bad in TABLE}
    for bad in SINGLE:
        covered.update(bad.call.__code__.co_names)
    public = {n for n, f in vars(tx).items() if callable(f) and f.__module__.startswith("torsh_fx")} | set(F.__all__)
    public -= {n for n, f in vars(tx).items() if isinstance(f, type) and issubclass(f, Exception)}
    public |= {n for n in dir(tx.Tensor) if hasattr(tx.Tensor, n)}
    public -= {*ALIASES, *(f"{alias}_" for alias in ALIASES)}  # each refuses what it names refuses
    public -= {n for n in public if getattr(vars(tx).get(n), "__name__", n) in public - {n}}
    lacking = sorted(n for n in public - covered - {*ELSEWHERE} if not n.startswith("_"))
    in_place = [n for n in lacking if n.endswith("_") and n[:-1] in covered]  # add_ refuses what add refuses
    assert sorted(set(lacking) - set(in_place)) == []


# -- devices ------------------------------------------------------------------------


def test_operands_on_two_devices() -> None:
    if len(jax.devices()) < 2:
        pytest.skip("needs two devices")
    a = tx.ones(3, device="cpu:0", requires_grad=True)
    b = tx.ones(3, device="cpu:1")
    anywhere = tx.ones(3)
    doubled = b * 2  # still pending
    assert [d.id for d in (a.device, b.device, doubled.device)] == [0, 1, 1]
    for call in (lambda: a + b, lambda: a * doubled, lambda: tx.cat([anywhere, a, b]), lambda: doubled.sum() - a):
        with pytest.raises(ValueError, match=r"cpu:0.*cpu:1|cpu:1.*cpu:0") as caught:
            call()
        assert isinstance(caught.value, tx.TorshError)
    assert (anywhere + b).tolist() == [2.0] * 3
    assert (a + b.to("cpu:0")).tolist() == [2.0] * 3
    b.copy_(a.detach())  # a write stays where the tensor is
    assert b.device.id == 1
    b.zero_()
    assert (b.device.id, b.tolist()) == (1, [0.0] * 3)
    with pytest.raises(tx.TorshError, match=r"copy_.*device.*cpu:1"):
        b.copy_(a)
    (a + anywhere).sum().backward()
    assert a.grad is not None
    assert a.grad.tolist() == [1.0] * 3


# -- nothing of JAX, NumPy or XLA gets through ------------------------------------------


def test_a_callback_that_raises_is_ours() -> None:
    def shout(x: Any) -> Any:
        raise KeyError("lost")

    x = tx.tensor([1.0, 2.0])
    y = tx.custom_op("shout", lambda v: jax.pure_callback(shout, jax.ShapeDtypeStruct((2,), "float32"), v))(x)
    with pytest.raises(tx.TorshError, match="lost"):
        y.tolist()
    assert (x * 2).tolist() == [2.0, 4.0]


def test_no_memory() -> None:
    with pytest.raises(tx.TorshError, match=r"zeros.*memory"):
        tx.zeros(2**50)


def test_failed_backward_leaves_the_graph_usable() -> None:
    x = tx.tensor([1.0, 2.0], requires_grad=True)
    y = x * x
    with pytest.raises(tx.AutogradError):
        y.backward()
    with pytest.raises(tx.ShapeMismatchError) as caught:
        y.backward(tx.ones(3))
    assert (caught.value.expected, caught.value.got) == ((2,), (3,))
    assert x.grad is None
    y.backward(tx.tensor([1.0, 10.0]))
    assert x.grad is not None
    assert x.grad.tolist() == [2.0, 40.0]


def test_freed_graph() -> None:
    x = tx.tensor([1.0, 2.0], requires_grad=True)
    y = (x * x).sum()
    y.backward()
    with pytest.raises(tx.AutogradError, match=r"freed.*retain_graph"):
        y.backward()
    assert x.grad is not None
    assert x.grad.tolist() == [2.0, 4.0]
