"""The vector codebook schemes: parts and names.

aqlm_<books>x<bits>g<run>            the codes of `books` codebooks for each run of `run` columns of one row
aqlm_<books>x<bits>g<rows>x<run>     the same for each tile of `rows` x `run`

codes      [N / rows, K / run, books]         codebook  [books, 2^bits, rows, run]        scale  [N / rows, 1]
"""

from __future__ import annotations

from fewbit.spec.dtype import U16, DType, dtype
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
