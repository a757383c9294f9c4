"""PyTorch's second names for methods: alias, then the name of what it is.  In-place forms follow."""

from __future__ import annotations

_TEXT = """
absolute abs, arccos acos, arccosh acosh, arcsin asin, arcsinh asinh, arctan atan, arctan2 atan2, arctanh atanh,
clip clamp, divide div, true_divide div, fix trunc, multiply mul, subtract sub, negative neg, sgn sign,
greater gt, greater_equal ge, less lt, less_equal le, not_equal ne, ger outer, moveaxis movedim, ravel flatten,
swapaxes transpose, swapdims transpose, unsafe_chunk chunk, unsafe_split split, split_with_sizes split,
view_as reshape_as, broadcast_to expand, nelement numel, ndimension dim, conj positive, conj_physical positive,
resolve_conj positive, resolve_neg positive
"""
ALIASES: dict[str, str] = dict(pair.split() for pair in _TEXT.split(","))
