"""In-place forms of scans, triangles, scatters and sums of products: as ``inplace``, for more functions."""

from __future__ import annotations

from collections.abc import Callable

from . import indexing, products, rearranging, scans, scattering
from .inplace import _writer
from .tensor import Tensor

FORMS: dict[str, Callable[..., Tensor]] = {
    f"{f.__name__}_": _writer(f"{f.__name__}_", f)
    for f in (
        indexing.masked_fill,
        scattering.masked_scatter,
        scattering.index_add,
        scattering.index_copy,
        scattering.index_fill,
        scattering.index_put,
        scattering.scatter,
        scattering.scatter_add,
        scattering.scatter_reduce,
        scans.cumsum,
        scans.cumprod,
        rearranging.tril,
        rearranging.triu,
        products.addmm,
        products.addmv,
        products.addr,
        products.addbmm,
        products.baddbmm,
    )
}
