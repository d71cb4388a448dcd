"""What a layer does beside multiplying by its weight: declared here, so that a method applies it or refuses it by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from fewbit.spec.dtype import DType
from fewbit.spec.granularity import Granularity

TRANSFORMS = ("pre_scale", "pre_hadamard", "pre_rotation", "post_rotation", "post_hadamard", "post_scale")
"""Fields of LayerQuant that name one tensor each, in the order in which they act: nothing is right without them."""


@dataclass(frozen=True, slots=True)
class InputQuant:
    """How the producer quantized activations. Granularity: tensor, token, or group along K.

    `scale`, `zero_point` and `global_scale` are names of auxiliary tensors of the checkpoint (static; the scale multiplies
    when dequantizing); "" means that they are computed from the activations (dynamic) or that there are none. A dynamic scale is
    the largest magnitude over `levels`; asymmetric, it spans from the least (at most 0) to the largest (at least 0).
    """

    codes: DType
    granularity: Granularity
    scale: str = ""
    zero_point: str = ""
    global_scale: str = ""
    scale_dtype: DType | None = None  # in which a dynamic scale is rounded, e8m0 for MX
    symmetric: bool = True  # of dynamic scales
    levels: float = field(default=127.0, compare=False)

    @property
    def is_static(self) -> bool:
        return bool(self.scale)

    def __str__(self) -> str:
        how = "static" if self.is_static else "dynamic" if self.symmetric else "dynamic asymmetric"
        return f"{self.codes}{self.granularity} {how}"


@dataclass(frozen=True, slots=True)
class LayerQuant:
    """Names of auxiliary tensors, by what the layer does with them; "" = nothing of the kind.

    y = post_scale * post_hadamard( post_rotation( W pre_rotation( pre_hadamard( pre_scale * x ) ) ) ) + bias
        + low_rank[1] (low_rank[0] x)

    input_quant     followed where kernels of that kind serve the layer; leaving activations in 16 bits is more exact and always right
    pre_scale       f [K]: multiplies activations (AWQ, SmoothQuant)
    pre_rotation    f [b, b]: multiplies each run of b activations (Hadamard); post_rotation the same on outputs
    pre_hadamard    f [q, q] R: all activations become (R (x) H) x, H Sylvester's Hadamard matrix of order K / q over its
                    root; post_hadamard the same on outputs (QuIP#)
    post_scale      f [N]: multiplies outputs, before the bias
    quant_bias      i32 [N]: correction that only a kernel with static input quantization adds
    low_rank        two matrices [r, K], [N, r]
    """

    input_quant: InputQuant | None = None
    pre_scale: str = ""
    pre_rotation: str = ""
    post_rotation: str = ""
    pre_hadamard: str = ""
    post_hadamard: str = ""
    post_scale: str = ""
    quant_bias: str = ""
    low_rank: tuple[str, str] | None = None

    def demands(self) -> Iterator[tuple[str, str]]:
        """(field, tensor) of all that changes the layer's result even with 16-bit activations: applied or refused."""
        for role in TRANSFORMS:
            if name := getattr(self, role):
                yield role, name
        if self.low_rank:
            yield "low_rank", self.low_rank[0]

    def renamed(self, name: Callable[[str], str]) -> LayerQuant:
        """The tensors under their other names."""
        if self == NO_LAYER_QUANT:
            return self

        def of(old: str) -> str:
            return name(old) if old else ""

        inputs = self.input_quant
        if inputs is not None and (inputs.scale or inputs.zero_point or inputs.global_scale):
            names = of(inputs.scale), of(inputs.zero_point), of(inputs.global_scale)
            inputs = replace(inputs, scale=names[0], zero_point=names[1], global_scale=names[2])
        return LayerQuant(
            inputs, quant_bias=of(self.quant_bias), **{role: of(getattr(self, role)) for role in TRANSFORMS},
            low_rank=(of(self.low_rank[0]), of(self.low_rank[1])) if self.low_rank else None,
        )  # fmt: skip


NO_LAYER_QUANT = LayerQuant()
