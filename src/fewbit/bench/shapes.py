"""Matrices [N, K] of real models, merged as they are served (q, k and v in one, gate and up in one); of experts, one.

Dimensions are those of each model's public config.json: hidden_size, intermediate_size (moe_intermediate_size),
num_attention_heads, num_key_value_heads, head_dim, vocab_size, and for DeepSeek kv_lora_rank and the qk and v head dims.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from fewbit.spec.refusal import FewbitError

HEAD = "head"


@dataclass(frozen=True, slots=True)
class Shape:
    """One matrix; `model` is "" where N and K were given as numbers."""

    model: str
    layer: str
    n: int
    k: int

    def __str__(self) -> str:
        return f"{self.n}x{self.k}" + (f" {self.model}/{self.layer}" if self.model else "")


MODELS: dict[str, dict[str, tuple[int, int]]] = {
    "llama-3.1-8b": {
        "qkv": (6144, 4096), "o": (4096, 4096), "gate_up": (28672, 4096), "down": (4096, 14336), HEAD: (128256, 4096),
    },
    "qwen3-4b": {
        "qkv": (6144, 2560), "o": (2560, 4096), "gate_up": (19456, 2560), "down": (2560, 9728), HEAD: (151936, 2560),
    },
    "qwen3-30b-a3b": {
        "qkv": (5120, 2048), "o": (2048, 4096), "expert_gate_up": (1536, 2048), "expert_down": (2048, 768), HEAD: (151936, 2048),
    },
    "gpt-oss-20b": {
        "qkv": (5120, 2880), "o": (2880, 4096), "expert_gate_up": (5760, 2880), "expert_down": (2880, 2880), HEAD: (201088, 2880),
    },
    "deepseek-v2-lite": {
        "q": (3072, 2048), "kv_a": (576, 2048), "kv_b": (4096, 512), "o": (2048, 2048),
        "dense_gate_up": (21888, 2048), "dense_down": (2048, 10944),
        "shared_gate_up": (5632, 2048), "shared_down": (2048, 2816),
        "expert_gate_up": (2816, 2048), "expert_down": (2048, 1408), HEAD: (102400, 2048),
    },
    "smollm2-135m": {
        "qkv": (960, 576), "o": (576, 576), "gate_up": (3072, 576), "down": (576, 1536), HEAD: (49152, 576),
    },
}  # fmt: skip

_LITERAL = re.compile(r"(\d+)x(\d+)")


def parse_shapes(text: str) -> tuple[Shape, ...]:
    """Of names split by commas: a model (its layers, the head left out since it sees one row a sequence), one layer of a model
    as `llama-3.1-8b/down` or `llama-3.1-8b/head`, or N x K in numbers as `14336x4096`."""
    found = [shape for name in text.split(",") for shape in _shapes(name.strip())]
    return tuple(dict.fromkeys(found))


def _shapes(name: str) -> list[Shape]:
    if literal := _LITERAL.fullmatch(name):
        n, k = map(int, literal.groups())
        if not n or not k:
            raise FewbitError(f"--shapes {name} has no elements; type N and K of at least 1, like 14336x4096")
        return [Shape("", "", n, k)]
    model, _, layer = name.lower().partition("/")
    if model not in MODELS:
        raise FewbitError(
            f"--shapes {name!r} is no model known here; type one of {', '.join(MODELS)}, or numbers like 14336x4096"
        )
    layers = MODELS[model]
    if layer and layer not in layers:
        raise FewbitError(f"--shapes {name!r}: {model} has no such layer; its layers are {', '.join(layers)}")
    wanted = [layer] if layer else [each for each in layers if each != HEAD]
    return [Shape(model, each, *layers[each]) for each in wanted]
