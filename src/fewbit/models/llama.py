"""Llama 2/3, Mistral, SmolLM2, Qwen2/2.5 and Qwen3 (dense): one graph with optional biases, q/k norms and windows.

    x = embedding(ids)
    each layer:  x += attention(norm(x));  x += mlp(norm(x))
    logits = head(norm(x[sampled rows]))

The residual stream x is f32 on every platform.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from fewbit.kernels.backend import Backend
from fewbit.kernels.ops.recorder import Ops
from fewbit.layers.attention import Attention, AttentionShape
from fewbit.layers.inputs import Cache, StepInputs
from fewbit.layers.mlp import GatedMlp
from fewbit.layers.norm import RmsNorm
from fewbit.layers.spec import EmbeddingSpec, LinearSpec, ModelSpec, TensorSpec, VectorSpec
from fewbit.models.interface import ModelShape, Parameters
from fewbit.models.llama_config import LlamaConfig, parse
from fewbit.spec.buffer import Buffer
from fewbit.spec.dtype import F32

__all__ = ["build", "describe", "parse", "shape"]


def describe(c: LlamaConfig) -> ModelSpec:
    """Every parameter, and the canonical tensors that fill it."""
    table = TensorSpec("model.embed_tokens.weight", (c.vocab_size, c.hidden_size))
    head_weight = table if c.tied else TensorSpec("lm_head.weight", (c.vocab_size, c.hidden_size))
    head = LinearSpec("lm_head", "head", (head_weight,), (None,))
    linears = [linear for i in range(c.layers) for linear in _layer_linears(c, f"model.layers.{i}")]
    vectors = [vector for i in range(c.layers) for vector in _layer_vectors(c, f"model.layers.{i}")]
    vectors.append(VectorSpec("model.norm", TensorSpec("model.norm.weight", (c.hidden_size,))))
    embedding = EmbeddingSpec("model.embed_tokens", table, "lm_head" if c.tied else "")
    return ModelSpec((*linears, head), embedding, tuple(vectors), c.ignored_tensors)


def _layer_linears(c: LlamaConfig, at: str) -> Iterator[LinearSpec]:
    q, kv, d, i = c.heads * c.head_dim, c.kv_heads * c.head_dim, c.hidden_size, c.intermediate_size
    attention, mlp = f"{at}.self_attn", f"{at}.mlp"
    qkv_rows = {"q_proj": q, "k_proj": kv, "v_proj": kv}
    yield _linear(f"{attention}.qkv_proj", "qkv", attention, qkv_rows, d, c.qkv_bias)
    yield _linear(f"{attention}.o_proj", "o", attention, {"o_proj": d}, q, (c.o_bias,))
    yield _linear(f"{mlp}.gate_up_proj", "gate_up", mlp, {"gate_proj": i, "up_proj": i}, d, (c.mlp_bias,) * 2)
    yield _linear(f"{mlp}.down_proj", "down", mlp, {"down_proj": d}, i, (c.mlp_bias,))


def _linear(
    name: str, kind: str, at: str, rows: dict[str, int], k: int, has_bias: tuple[bool, ...]
) -> LinearSpec:
    weights = tuple(TensorSpec(f"{at}.{part}.weight", (n, k)) for part, n in rows.items())
    biases = tuple(
        TensorSpec(f"{at}.{part}.bias", (n,)) if bias else None
        for (part, n), bias in zip(rows.items(), has_bias, strict=True)
    )
    return LinearSpec(name, kind, weights, biases)


def _layer_vectors(c: LlamaConfig, at: str) -> Iterator[VectorSpec]:
    sizes = {"input_layernorm": c.hidden_size, "post_attention_layernorm": c.hidden_size}
    if c.qk_norm:
        sizes |= {"self_attn.q_norm": c.head_dim, "self_attn.k_norm": c.head_dim}
    for name, size in sizes.items():
        yield VectorSpec(f"{at}.{name}", TensorSpec(f"{at}.{name}.weight", (size,)))


def _attention_shape(c: LlamaConfig, layer: int) -> AttentionShape:
    return AttentionShape(c.heads, c.kv_heads, c.head_dim, c.rope.dim, c.windows[layer])


def shape(c: LlamaConfig) -> ModelShape:
    width = _attention_shape(c, 0).qkv_width
    working = 2 * c.hidden_size + width + c.heads * c.head_dim + 3 * c.intermediate_size + c.rope.dim
    kv_shapes = ((c.kv_heads, c.head_dim),) * c.layers
    return ModelShape(c.hidden_size, c.vocab_size, c.max_position_embeddings, kv_shapes, working)


@dataclass(frozen=True, slots=True)
class Working:
    """Buffers of a step, [T, ...] f32, reused by every layer."""

    residual: Buffer
    normed: Buffer
    qkv: Buffer
    mixed: Buffer  # heads after attention
    gate_up: Buffer
    gated: Buffer
    cos: Buffer
    sin: Buffer


@dataclass(frozen=True, slots=True)
class Layer:
    attention_norm: RmsNorm
    attention: Attention
    mlp_norm: RmsNorm
    mlp: GatedMlp


class Llama:
    def __init__(self, config: LlamaConfig, parameters: Parameters, backend: Backend) -> None:
        self.config, self.shape = config, shape(config)
        self._embedding, self._head = parameters.embedding, parameters.linears["lm_head"]
        self._norm = RmsNorm(parameters.vectors["model.norm"], config.eps)
        self._layers = tuple(_layer(config, parameters, i) for i in range(config.layers))
        self._inv_freq = backend.upload(config.rope.inv_freq(), F32)

    def working(self, backend: Backend, rows: int) -> Working:
        c = self.config
        half, width = c.rope.dim // 2, _attention_shape(c, 0).qkv_width
        attention = (c.hidden_size, c.hidden_size, width, c.heads * c.head_dim)
        columns = (*attention, 2 * c.intermediate_size, c.intermediate_size, half, half)
        return Working(*(backend.empty((rows, count), F32) for count in columns))

    def record_trunk(self, ops: Ops, inputs: StepInputs, caches: tuple[Cache, ...], w: Working) -> None:
        rows = inputs.rows
        self._embedding.record(ops, inputs.token_ids, w.residual, rows)
        ops.rope_angles(inputs.positions, self._inv_freq, w.cos, w.sin, rows, scale=self.config.rope.scale())
        for layer, cache in zip(self._layers, caches, strict=True):
            layer.attention.record(
                ops, layer.attention_norm, w.normed, w.residual, inputs, cache, w.cos, w.sin, w.qkv, w.mixed
            )
            layer.mlp.record(ops, layer.mlp_norm, w.normed, w.residual, rows, w.gate_up, w.gated)

    def record_head(self, ops: Ops, inputs: StepInputs, w: Working, gathered: Buffer, logits: Buffer) -> None:
        """`gathered` [L, hidden_size] takes the sampled rows of the residual stream, which itself stays as it is."""
        ops.gather_rows(w.residual, inputs.sample_rows, gathered, inputs.sampled)
        self._head.record_normed(ops, self._norm, gathered, gathered, logits, inputs.sampled)


def _layer(c: LlamaConfig, parameters: Parameters, index: int) -> Layer:
    at = f"model.layers.{index}"
    linears, vectors = parameters.linears, parameters.vectors

    def norm(name: str) -> RmsNorm:
        return RmsNorm(vectors[f"{at}.{name}"], c.eps)

    attention = Attention(
        _attention_shape(c, index),
        linears[f"{at}.self_attn.qkv_proj"],
        linears[f"{at}.self_attn.o_proj"],
        norm("self_attn.q_norm") if c.qk_norm else None,
        norm("self_attn.k_norm") if c.qk_norm else None,
    )
    mlp = GatedMlp(linears[f"{at}.mlp.gate_up_proj"], linears[f"{at}.mlp.down_proj"])
    return Layer(norm("input_layernorm"), attention, norm("post_attention_layernorm"), mlp)


def build(config: LlamaConfig, parameters: Parameters, backend: Backend) -> Llama:
    return Llama(config, parameters, backend)
