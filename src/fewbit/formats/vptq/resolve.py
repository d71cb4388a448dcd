"""Which modules of a VPTQ folder are quantized, and where their parts come from.

indices                   i32 [groups, N / rows, words]     see `decode`
centroids.weight          f [groups, centroids * rows]      res_centroids.weight likewise
outlier_indices           i16 [1, N / rows, outliers]       outlier_centroids.weight  f [1, centroids * rows]
perm                      i16 (meant unsigned) [K]          weight_scale, weight_bias  f [K]
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from fewbit.formats.folder.parts import Part, Shared
from fewbit.formats.folder.resolve import Claim, Module, Resolved, Unquantized, split_name
from fewbit.formats.folder.safetensors import PLAIN, DiskTensor
from fewbit.formats.vptq.config import Layer, Vectors, VptqConfig
from fewbit.formats.vptq.decode import Indices, Order, OutlierIndices
from fewbit.schemes.arrays import Array
from fewbit.schemes.vector.scheme import Columns, vptq

BOOKS = ("centroids.weight", "res_centroids.weight", "outlier_centroids.weight")
SIGNS = frozenset({"indices", "outlier_indices", "perm", "weight_scale", "weight_bias", *BOOKS})
SHORT = ("I16", "U16")


class VptqResolver:
    signs = SIGNS

    def __init__(self, config: VptqConfig) -> None:
        self.config = config

    def split(self, name: str) -> tuple[str, str]:
        book = next((book for book in BOOKS if name.endswith(f".{book}")), "")
        return (name.removesuffix(f".{book}"), book) if book else split_name(name)

    def resolve(self, module: Module) -> Iterable[Claim]:
        entry = module.rule(self.config.plain_by)
        if entry:
            yield Unquantized(f"modules_to_not_convert {entry!r}")
        elif SIGNS & module.leaves.keys():
            layer, rule = self.config.layer_of(module.rule(self.config.spelled) or module.name)
            if layer is None:
                module.fail(
                    f"is quantized (it has {', '.join(module.leaves)}), but {self.config.where} has no layer for it in "
                    "config_for_layers or shared_layer_config; they contradict each other"
                )
            yield _quantized(module, layer, f"{rule} ({layer})")
        elif module.plain_weight is not None and len(module.plain_weight.shape) == 2:
            if module.rule(self.config.spelled):
                module.fail(
                    f"is plain ({module.plain_weight}), but {self.config.where} names it in config_for_layers; they contradict "
                    "each other"
                )
            yield Unquantized("it is stored as a plain float")


def _quantized(module: Module, layer: Layer, rule: str) -> Resolved:
    main, columns = layer.main, layer.groups * layer.group_size
    k = columns + layer.outliers
    bits = [(many - 1).bit_length() for many in (main.centroids, main.residual or 1)]
    words = -(-layer.group_size * sum(bits) // 32)
    indices = module.need("indices", rule, "I32", "U32")
    if len(indices.shape) != 3 or indices.shape[::2] != (layer.groups, words):
        module.wrong(indices, f"shape [{layer.groups}, output rows / {main.rows}, {words}] ({rule})")
    n = indices.shape[1] * main.rows if layer.n == -1 else layer.n
    if -(-n // main.rows) != indices.shape[1] or layer.k not in (-1, k):
        module.wrong(indices, f"the indices of a weight of shape [{layer.n}, {layer.k}] ({rule})")
    book = _book(module, "centroids.weight", main, layer.groups, rule)
    form = Columns(
        main.rows, main.centroids, layer.groups, main.residual, layer.outliers, layer.outlier.rows,
        layer.outlier.centroids, layer.ordered, layer.scaled,
    )  # fmt: skip
    parts: dict[str, Part] = {
        "codes": Indices(indices, main.rows, layer.group_size, sum(bits), 0, bits[0]),
        "codebook": book,
    }
    if main.residual:
        residual = replace(main, centroids=main.residual)
        parts["residual_codes"] = Indices(indices, main.rows, layer.group_size, sum(bits), *bits)
        parts["residual_codebook"] = _book(
            module, "res_centroids.weight", residual, layer.groups, rule, book.tensor.kind
        )
    if layer.outliers:
        shape = (1, -(-n // layer.outlier.rows), layer.outliers)
        chosen = module.need("outlier_indices", rule, *SHORT, shape=shape)
        parts["outlier_codes"] = OutlierIndices(chosen, layer.outlier.rows, layer.outlier.centroids)
        others = _book(module, "outlier_centroids.weight", layer.outlier, 1, rule, book.tensor.kind)
        parts["outlier_codebook"] = Shared(others.tensor, others.shape[1:])
    if layer.ordered:
        parts["column_order"] = _order(module, module.need("perm", rule, *SHORT, "I64", "I32", shape=(k,)), k)
    scale = book.tensor.dtype
    if layer.scaled:
        multiplier = module.need("weight_scale", rule, *PLAIN, shape=(k,))
        added = module.need("weight_bias", rule, multiplier.kind, shape=(k,))
        parts |= {"column_scale": Shared(multiplier, (k,)), "column_offset": Shared(added, (k,))}
        scale = multiplier.dtype
    scheme = vptq(form, k, codebook=book.tensor.dtype, scale=scale)
    return Resolved(f"{module.name}.weight", scheme, (n, k), parts, rule)


def _book(module: Module, leaf: str, vectors: Vectors, groups: int, rule: str, *kinds: str) -> Shared:
    shape = (groups, vectors.centroids * vectors.rows)
    held = module.need(leaf, rule, *(kinds or PLAIN), shape=shape)
    return Shared(held, (groups, vectors.centroids, vectors.rows))


def _order(module: Module, perm: DiskTensor, k: int) -> Order:
    """Read now: it must be a permutation."""
    stored = perm.whole()
    places: Array = stored.view(np.uint16).astype(np.int64) if perm.kind == "I16" else stored.astype(np.int64)
    order = np.argsort(places, kind="stable")
    if not np.array_equal(places[order], np.arange(k)):
        module.wrong(perm, f"each of the columns 0 to {k - 1} once")
    return Order(perm, tuple(int(i) for i in order))
