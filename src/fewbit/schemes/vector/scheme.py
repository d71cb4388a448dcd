"""The vector codebook schemes: parts and names.

aqlm_<books>x<bits>g<run>            the codes of `books` codebooks for each run of `run` columns of one row
aqlm_<books>x<bits>g<rows>x<run>     the same for each tile of `rows` x `run`

codes      [N / rows, K / run, books]         codebook  [books, 2^bits, rows, run]        scale  [N / rows, 1]

vptq_v<rows>c<centroids>[r<centroids>][o<rows>c<centroids>][p][n]
                                     a code for each run of `rows` rows of one column, the codebook that of its group of columns

codes             [N / rows, K - outliers]    codebook           [groups, centroids, rows]
residual_codes    [N / rows, K - outliers]    residual_codebook  [groups, centroids, rows]     r: a second vector is added
outlier_codes     [N / rows, outliers]        outlier_codebook   [centroids, rows]             o: other vectors for some columns
column_order      [K]                         column k of the weight is column order[k] of outliers and others, in this order
column_scale, column_offset  [K]              n: what multiplies the columns, and is added then
"""

from __future__ import annotations

from dataclasses import dataclass
from math import lcm

from fewbit.spec.dtype import I32, U16, DType, dtype
from fewbit.spec.scheme import PartSpec, Scheme


def code_type(bits: int) -> DType:
    """The element type of codes of 1 to 16 bits."""
    return dtype(f"u{bits}") if bits <= 8 else U16


def aqlm(books: int, bits: int, run: int, rows: int = 1, *, codebook: DType, scale: DType) -> Scheme:
    tile = f"{rows}x{run}" if rows > 1 else f"{run}"
    code = code_type(bits)
    parts = (
        PartSpec("codes", code, (("n", rows), ("k", run), books)),
        PartSpec("codebook", codebook, (books, 1 << bits, rows, run)),
        PartSpec("scale", scale, (("n", rows), 1)),
    )
    family = f"aqlm_{books}x{bits}g{tile}"
    return Scheme(code, family=family, family_parts=parts, row_block=rows, k_block=run)


@dataclass(frozen=True, slots=True)
class Columns:
    """What a VPTQ weight is made of. Vectors of `rows` rows; `residual` and `outliers` 0: there are none."""

    rows: int
    centroids: int
    groups: int = 1
    residual: int = 0
    outliers: int = 0
    outlier_rows: int = 1
    outlier_centroids: int = 0
    ordered: bool = False
    scaled: bool = False

    @property
    def family(self) -> str:
        outliers = f"o{self.outlier_rows}c{self.outlier_centroids}" if self.outliers else ""
        residual = f"r{self.residual}" if self.residual else ""
        letters = f"{'p' * self.ordered}{'n' * self.scaled}"
        return f"vptq_v{self.rows}c{self.centroids}{residual}{outliers}{letters}"


def vptq(form: Columns, k: int, *, codebook: DType, scale: DType) -> Scheme:
    """Of weights with `k` columns; `scale` is the type of column_scale and column_offset."""
    rows, rest = form.rows, k - form.outliers
    parts = [
        PartSpec("codes", U16, (("n", rows), rest)),
        PartSpec("codebook", codebook, (form.groups, form.centroids, rows)),
    ]
    if form.residual:
        parts.append(PartSpec("residual_codes", U16, (("n", rows), rest)))
        parts.append(PartSpec("residual_codebook", codebook, (form.groups, form.residual, rows)))
    if form.outliers:
        parts.append(PartSpec("outlier_codes", U16, (("n", form.outlier_rows), form.outliers)))
        parts.append(PartSpec("outlier_codebook", codebook, (form.outlier_centroids, form.outlier_rows)))
    if form.ordered:
        parts.append(PartSpec("column_order", I32, (k,)))
    if form.scaled:
        parts += [PartSpec(role, scale, (k,)) for role in ("column_scale", "column_offset")]
    block = lcm(rows, form.outlier_rows) if form.outliers else rows
    return Scheme(U16, family=form.family, family_parts=tuple(parts), row_block=block)
