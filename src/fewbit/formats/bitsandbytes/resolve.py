"""Which modules of a bitsandbytes folder are quantized, and where their parts come from.

4 bits  weight u8 [N * K / 2, 1]          weight.quant_map f32 [16]     weight.quant_state.bitsandbytes__<type>  JSON
        weight.absmax f32 [blocks], or u8 with weight.nested_absmax f32 [blocks / 256] and weight.nested_quant_map f32 [256]
8 bits  weight i8 [N, K]                  SCB f32 [N]                   weight_format u8 [], 0: rows as they are
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import gcd

from fewbit.formats.bitsandbytes.config import METHOD, BitsAndBytesConfig
from fewbit.formats.bitsandbytes.decode import BlockScales, FlatCodes, Nested, RowScales
from fewbit.formats.bitsandbytes.quant_state import read_quant_state
from fewbit.formats.folder.parts import Part, Rows, Shared
from fewbit.formats.folder.resolve import Claim, Explained, Module, Resolved, Unquantized, split_name
from fewbit.spec.dtype import F32, I8, U4
from fewbit.spec.granularity import CHANNEL, group
from fewbit.spec.scheme import Scheme

STATE = "weight.quant_state.bitsandbytes__"
SIGNS_4 = frozenset(
    {
        "weight.absmax",
        "weight.quant_map",
        "weight.nested_absmax",
        "weight.nested_quant_map",
        f"{STATE}nf4",
        f"{STATE}fp4",
    }
)
SIGNS_8 = frozenset({"SCB", "weight_format"})


class BitsAndBytesResolver:
    signs = SIGNS_4 | SIGNS_8

    def __init__(self, config: BitsAndBytesConfig) -> None:
        self.config = config

    def split(self, name: str) -> tuple[str, str]:
        module, found, leaf = name.partition(".weight.")
        return (module, f"weight.{leaf}") if found else split_name(name)

    def resolve(self, module: Module) -> Iterable[Claim]:
        weight, skipped = module.leaves.get("weight"), module.rule(self.config.skips)
        packed = bool(self.signs & module.leaves.keys()) or (weight is not None and not weight.is_plain)
        if packed and skipped:
            module.fail(
                f"is quantized (it has {', '.join(module.leaves)}), but {self.config.where}: llm_int8_skip_modules names "
                f"{skipped!r}; they contradict each other"
            )
        if packed and self.config.bits == 4:
            yield from self._four_bits(module)
        elif packed:
            yield from _eight_bits(module)
        elif weight is not None and len(weight.shape) == 2:
            yield Unquantized(
                f"llm_int8_skip_modules names {skipped!r}" if skipped else "it is stored as a plain float"
            )

    def _four_bits(self, module: Module) -> Iterator[Claim]:
        rule = f"{METHOD} with load_in_4bit"
        quant_type = self.config.quant_type
        said = module.need(f"{STATE}{quant_type}", rule, "U8")
        state = read_quant_state(said)
        nested = state.nested_blocksize > 0
        if state.quant_type != quant_type or nested != self.config.double:
            module.wrong(
                said,
                f"quant_type {quant_type!r} {'with' if self.config.double else 'without'} nested scales, as {self.config.where} "
                "says",
            )
        if state.blocksize < 2 or state.blocksize & (state.blocksize - 1):
            module.wrong(said, f"a blocksize that is a power of two, not {state.blocksize}")
        elems = state.n * state.k
        blocks = -(-elems // state.blocksize)
        weight = module.need("weight", rule, "U8", shape=(elems // 2, 1))
        absmax = module.need("weight.absmax", rule, "U8" if nested else "F32", shape=(blocks,))
        quant_map = module.need("weight.quant_map", rule, "F32", shape=(16,))
        inner = None
        if nested:
            inner = Nested(
                module.need(
                    "weight.nested_absmax", rule, "F32", shape=(-(-blocks // state.nested_blocksize),)
                ),
                module.need("weight.nested_quant_map", rule, "F32", shape=(256,)),
            )
        size = gcd(state.k, state.blocksize)
        parts: dict[str, Part] = {
            "codes": FlatCodes(weight, state.k),
            "scale": BlockScales(absmax, state, size, inner),
            "codebook": Shared(quant_map, (16,)),
        }
        yield Explained(said, "it describes the weight beside it")
        scheme = Scheme(U4, group(size), scale=F32, codebook=F32)
        yield Resolved(f"{module.name}.weight", scheme, (state.n, state.k), parts, f"{rule} ({quant_type})")


def _eight_bits(module: Module) -> Iterator[Claim]:
    rule = f"{METHOD} with load_in_8bit"
    weight = module.need("weight", rule, "I8")
    if len(weight.shape) != 2:
        module.wrong(weight, "a matrix")
    scb = module.need("SCB", rule, "F32", shape=weight.shape[:1])
    order = module.get("weight_format", "U8", shape=())
    if order is not None:
        if int(order.whole()) != 0:
            module.wrong(
                order,
                f"0 (rows as they are), not {int(order.whole())}, an order of some GPU's own; convert it anew",
            )
        yield Explained(order, "0: rows as they are")
    parts: dict[str, Part] = {"codes": Rows(weight), "scale": RowScales(scb)}
    yield Resolved(f"{module.name}.weight", Scheme(I8, CHANNEL, scale=F32), weight.shape, parts, rule)
