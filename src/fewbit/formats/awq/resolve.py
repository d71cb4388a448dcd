"""Which modules of an AWQ folder are quantized, and where their parts come from.

gemm    qweight i32 [K, N/8]    qzeros i32 [K/group, N/8]    scales f [K/group, N]; eights of output rows in AWQ's order
The other versions are in gemv.py and marlin.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace

from fewbit.formats.awq.activation import activation_claim, is_activation, scaled_readers
from fewbit.formats.awq.config import AwqConfig, Settings
from fewbit.formats.awq.decode import MiddleZeros
from fewbit.formats.awq.gemv import gemv, gemv_fast
from fewbit.formats.awq.marlin import marlin
from fewbit.formats.folder.packing import AWQ_ORDER
from fewbit.formats.folder.parts import Columns, PackedAcross, Part
from fewbit.formats.folder.resolve import Claim, Module, Resolved, Unquantized, split_name
from fewbit.formats.folder.safetensors import DiskTensor
from fewbit.spec.dtype import I4, U4, DType
from fewbit.spec.granularity import CHANNEL, group
from fewbit.spec.scheme import Scheme

WORDS = ("I32", "U32")
FLOATS = ("F16", "BF16", "F32")
SIGNS = frozenset({"qweight", "qzeros", "scales"})


class AwqResolver:
    signs = SIGNS

    def __init__(self, config: AwqConfig, disk: Mapping[str, DiskTensor]) -> None:
        self.config, self.disk = config, disk
        self.scaled = scaled_readers(disk)

    def split(self, name: str) -> tuple[str, str]:
        return split_name(name)

    def resolve(self, module: Module) -> Iterable[Claim]:
        entry = module.rule(self.config.plain_by)
        if entry is not None:
            yield Unquantized(f"modules_to_not_convert {entry!r}")
        elif is_activation(module):
            yield from activation_claim(module, self.disk)
        elif SIGNS & module.leaves.keys():
            settings = self.config.settings
            rule = f"the config (version {settings.version}, group_size {settings.group_size})"
            for claim in packed_module(module, settings, rule):
                yield self._scaled(module, claim)
        elif module.plain_weight is not None and len(module.plain_weight.shape) == 2:
            if "lm_head" in (module.name, *module.spellings) and self.config.lm_head:
                module.fail(
                    f"is plain ({module.plain_weight}), but {self.config.where} says lm_head true; they contradict each other"
                )
            yield Unquantized("it is stored as a plain float")

    def _scaled(self, module: Module, claim: Claim) -> Claim:
        """With the scales of its activation, where it has one."""
        scales = self.scaled.get(module.name)
        if scales is None or not isinstance(claim, Resolved):
            return claim
        if scales.shape != claim.shape[1:]:
            module.wrong(
                scales, f"shape {list(claim.shape[1:])}, one scale for each input of {module.name!r}"
            )
        return replace(claim, layer=replace(claim.layer, pre_scale=scales.name))


def packed_module(module: Module, settings: Settings, rule: str) -> Iterator[Claim]:
    """One module as AWQ packs it; other formats that write the same tensors call this too."""
    yield _VERSIONS[settings.version](module, settings, rule)


def _gemm(module: Module, settings: Settings, rule: str) -> Resolved:
    qweight = module.need("qweight", rule, *WORDS)
    if len(qweight.shape) != 2:
        module.wrong(qweight, f"a matrix of words that hold 4-bit codes ({rule})")
    k, n = qweight.shape[0], qweight.shape[1] * 8
    groups = _groups(module, settings, k, rule)
    scales = module.need("scales", rule, *FLOATS, shape=(groups, n))
    qzeros = module.need("qzeros", rule, *WORDS, shape=(groups, n // 8))
    sign = "none" if settings.zero_point else "offset"
    codes: Part = PackedAcross(qweight, 4, sign, AWQ_ORDER)
    zeros = PackedAcross(qzeros, 4, order=AWQ_ORDER)
    parts: dict[str, Part] = {"codes": codes, "scale": Columns(scales)}
    if settings.zero_point:
        parts["zero_point"] = zeros
    else:
        parts["codes"] = MiddleZeros(codes, zeros)
    return Resolved(f"{module.name}.weight", _scheme(settings, scales.dtype), (n, k), parts, rule)


def _groups(module: Module, settings: Settings, k: int, rule: str) -> int:
    length = k if settings.group_size == -1 else settings.group_size
    if k % length:
        module.fail(
            f"has K={k}, no multiple of its group size {length} ({rule}); the config does not fit the tensors"
        )
    return k // length


def _scheme(settings: Settings, scale: DType) -> Scheme:
    shared = CHANNEL if settings.group_size == -1 else group(settings.group_size)
    if settings.zero_point:
        return Scheme(U4, shared, scale=scale, zero_point=U4)
    return Scheme(I4, shared, scale=scale)


_VERSIONS: dict[str, Callable[[Module, Settings, str], Resolved]] = {
    "gemm": _gemm, "gemv": gemv, "gemv_fast": gemv_fast, "marlin": marlin,
}  # fmt: skip
