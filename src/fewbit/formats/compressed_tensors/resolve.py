"""Which modules of a compressed-tensors folder are quantized, by which group, and where their parts come from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from fewbit.formats.compressed_tensors.activations import LEAVES, cache_scales, input_quant
from fewbit.formats.compressed_tensors.config import Group, Settings
from fewbit.formats.compressed_tensors.fits import fits
from fewbit.formats.compressed_tensors.marlin24 import LEAVES as MARLIN_LEAVES
from fewbit.formats.compressed_tensors.marlin24 import read_marlin24
from fewbit.formats.compressed_tensors.sparse import SPARSE_LEAVES, read_sparse
from fewbit.formats.compressed_tensors.targets import strongest
from fewbit.formats.compressed_tensors.transform import rotation, shared_matrices
from fewbit.formats.compressed_tensors.weights import read_weight
from fewbit.formats.folder.resolve import Claim, Module, Resolved, Unquantized, split_name
from fewbit.formats.folder.safetensors import DiskTensor
from fewbit.spec.layer_quant import LayerQuant

PACKED = frozenset({
    "weight_packed", "weight_scale", "weight_zero_point", "weight_g_idx", "weight_shape", "weight_global_scale", *LEAVES,
    *SPARSE_LEAVES, *MARLIN_LEAVES,
})  # fmt: skip


class CompressedResolver:
    signs = PACKED | {"k_scale", "v_scale", "output_scale"}

    def __init__(self, settings: Settings, disk: Mapping[str, DiskTensor]) -> None:
        self.settings = settings
        self.shared = shared_matrices(settings.transforms, disk)
        self.matrices = {transform.leaf for transform in settings.transforms}

    def split(self, name: str) -> tuple[str, str]:
        parts = name.split(".")
        leaf = ".".join(parts[-2:])
        return (".".join(parts[:-2]), leaf) if leaf in self.matrices else split_name(name)

    def resolve(self, module: Module) -> Iterable[Claim]:
        yield from cache_scales(module)
        weight = module.leaves.get("weight")
        quantized = bool(PACKED & module.leaves.keys()) or (weight is not None and not weight.is_plain)
        if not quantized and (weight is None or len(weight.shape) != 2):
            return
        ignored = strongest(self.settings.ignore, module)[1]
        if ignored:
            yield Unquantized(f"ignore {ignored!r}")
        elif quantized:
            yield from self._quantized(module)
        else:
            group, strength, _ = self._group(module)
            if group is not None and strength == 3 and group.weights is not None:
                module.fail(
                    f"is plain ({weight}), but {self.settings.where} names it in config group {group.name!r}; they contradict "
                    "each other"
                )
            yield Unquantized("it is stored as a plain float" if group else "no target names it")

    def _group(self, module: Module) -> tuple[Group | None, int, str]:
        """The group whose target names the module best, of several such the first that its tensors fit, whatever their order;
        groups for activations alone only where no other does."""
        named = [(group, *strongest(group.targets, module)) for group in self.settings.groups]
        for weighted in (True, False):
            found = [n for n in named if n[1] and (n[0].weights is not None) == weighted]
            best = [n for n in found if n[1] == max(strength for _, strength, _ in found)]
            if best:
                return next((n for n in best if fits(module, n[0])), best[0])
        return None, 0, ""

    def _quantized(self, module: Module) -> Iterable[Claim]:
        group, _, text = self._group(module)
        if self.settings.sparse != "dense" and not module.leaves.keys().isdisjoint(SPARSE_LEAVES):
            yield from read_sparse(module, group, self.settings.sparse)
            return
        if group is None or group.weights is None:
            module.fail(
                f"holds quantized tensors ({', '.join(module.leaves)}), but no target of {self.settings.where} names it"
            )
        rule = f"config group {group.name!r} (target {text!r})"
        if group.stored == "marlin-24":
            yield from read_marlin24(module, group, rule)
            return
        weight = read_weight(module, group.weights, group.stored, rule)
        inputs, claims = input_quant(module, group.inputs, rule)
        yield from weight.explained
        yield from claims
        rotations: dict[str, Any] = {}
        for transform in self.settings.transforms:
            if transform.names(module):
                length = weight.shape[transform.field == "pre_rotation"]
                rotations[transform.field], own = rotation(module, transform, self.shared, length)
                if own is not None:
                    yield own
        layer = LayerQuant(input_quant=inputs, **rotations)
        yield Resolved(f"{module.name}.weight", weight.scheme, weight.shape, weight.parts, rule, layer)
