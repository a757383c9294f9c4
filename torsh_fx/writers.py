"""In-place forms of scans, triangles, scatters and sums of products: as ``inplace``, for more functions."""

from __future__ import annotations

from . import indexing, products, rearranging, scans, scattering
from .inplace import forms

FORMS = forms(
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
