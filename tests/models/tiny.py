"""Tiny random models of transformers, the same weights as a checkpoint of ours, and batches over both."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fewbit.engine.runner import PAGE_TOKENS, BatchInput, Runner
from fewbit.formats.checkpoint import Account, TensorInfo
from fewbit.kernels.backend import Backend
from fewbit.kernels.ops import kv_page
from fewbit.loader import load_model
from fewbit.schemes.arrays import widen_bf16
from fewbit.schemes.reference import dequantize, quantize
from fewbit.spec.dtype import BF16, F32, DType
from fewbit.spec.scheme import QuantTensor, Scheme

PLAIN = Scheme(F32)


@dataclass
class ArrayCheckpoint:
    """A checkpoint held in memory: what a format would give."""

    model_type: str
    config: dict[str, Any]
    held: dict[str, QuantTensor]
    format: str = "arrays"
    wrapper: str = ""
    path: Path = Path("arrays")
    tokenizer: None = None

    @property
    def tensors(self) -> dict[str, TensorInfo]:
        return {
            name: TensorInfo(
                name, name, t.shape, t.scheme, sum(p.nbytes for p in t.parts.values()), self.path
            )
            for name, t in self.held.items()
        }

    def read(self, name: str, start: int = 0, stop: int | None = None) -> QuantTensor:
        tensor = self.held[name]
        stop = tensor.shape[0] if stop is None else stop
        parts = {role: _rows(role, part, tensor, start, stop) for role, part in tensor.parts.items()}
        return QuantTensor(tensor.scheme, parts["codes"].shape, parts)

    auxiliary: frozenset[str] = frozenset()
    unquantized: tuple[()] = ()

    def read_auxiliary(self, name: str) -> np.ndarray:
        raise AssertionError(f"{name}: an array checkpoint has no auxiliary tensors")

    def account(self) -> Account:
        return Account(self.held.keys())

    def close(self) -> None:
        pass

    def dequantized(self) -> ArrayCheckpoint:
        """The same numbers, all plain f32."""
        held = {name: quantize(dequantize(tensor), PLAIN) for name, tensor in self.held.items()}
        return ArrayCheckpoint(self.model_type, self.config, held)


def _rows(role: str, part: np.ndarray, tensor: QuantTensor, start: int, stop: int) -> np.ndarray:
    """A part of the whole tensor is the same for all rows; 2-D blocks are cut at their own multiples."""
    scheme = tensor.scheme
    if role in ("global_scale", "codebook", "group_index") or (
        role != "codes" and scheme.granularity.sharing == "tensor"
    ):
        return part
    step = scheme.block_n if role != "codes" else 1
    return part[start // step : -(-stop // step)]


def checkpoint_of(model: Any, schemes: Mapping[str, Scheme] | None = None) -> ArrayCheckpoint:
    """Of a transformers model; `schemes` by a part of the name, for those that are not plain f32."""
    held = {}
    tied = model.config.tie_word_embeddings
    for name, value in model.state_dict().items():
        if tied and name == "lm_head.weight":
            continue
        scheme = next((s for part, s in (schemes or {}).items() if part in name), PLAIN)
        held[name] = quantize(value.float().numpy(), scheme)
    return ArrayCheckpoint(model.config.model_type, model.config.to_dict(), held)


def runner_of(checkpoint: Any, backend: Backend, cache_dtype: DType = BF16, **sizes: int) -> Runner:
    sizes = {"max_rows": 64, "max_sequences": 8, "pages": 32, "max_pages_per_sequence": 6} | sizes
    return Runner(load_model(checkpoint, backend).model, backend, cache_dtype=cache_dtype, **sizes)


@dataclass
class Driver:
    """Feeds sequences through a runner: each owns the pages [1 + 6 i, 7 + 6 i)."""

    runner: Runner
    pages: int = 6

    def __post_init__(self) -> None:
        self.lengths: dict[int, int] = {}

    def batch(self, chunks: Mapping[int, list[int]], *, all_rows: bool = True) -> BatchInput:
        """The next tokens of each sequence; logits of every row, or of each sequence's last."""
        ids, positions, slots, q_start, kv_len, table = [], [], [], [0], [], []
        for sequence, tokens in chunks.items():
            start = self.lengths.get(sequence, 0)
            pages = [1 + self.pages * sequence + i for i in range(self.pages)]
            at = range(start, start + len(tokens))
            ids += tokens
            positions += at
            slots += [pages[p // PAGE_TOKENS] * PAGE_TOKENS + p % PAGE_TOKENS for p in at]
            q_start.append(len(ids))
            kv_len.append(at.stop)
            table.append(pages[: -(-at.stop // PAGE_TOKENS)])
            self.lengths[sequence] = at.stop
        rows = list(range(len(ids))) if all_rows else [end - 1 for end in q_start[1:]]
        many = len(rows)
        return BatchInput(
            ids, positions, slots, q_start, kv_len, table, rows,
            [0.0] * many, [0] * many, [1.0] * many, [0.0] * many, [0.5] * many, [5] * many,
        )  # fmt: skip

    def logits(self, chunks: Mapping[int, list[int]]) -> list[np.ndarray]:
        """Of every row, a list by sequence in the order of `chunks`."""
        batch = self.batch(chunks)
        return np.split(self.runner.logits(batch), np.asarray(batch.q_start[1:-1], np.int64))

    def cached(self, sequence: int) -> list[tuple[np.ndarray, np.ndarray]]:
        """Keys and values of a sequence by layer, [kv_heads, tokens, head_dim] f32."""
        pages = np.arange(1 + self.pages * sequence, 1 + self.pages * (sequence + 1))
        found = []
        for (heads, dim), cache in zip(self.runner.model.shape.kv_shapes, self.runner._caches, strict=True):
            keys, values = self.runner.backend.array(cache.keys), self.runner.backend.array(cache.values)
            split = kv_page.split_keys(keys, heads, dim), kv_page.split_values(values, heads, dim)
            held = kv_page.load(*split, pages, self.lengths[sequence])
            found.append(tuple(widen_bf16(part) if part.dtype == np.uint16 else part for part in held))
        return found


def plain_llama(
    schemes: Mapping[str, Scheme] | None = None,
    *,
    tied: bool = False,
    bias: bool = False,
    hidden: int = 64,
    inner: int = 96,
) -> ArrayCheckpoint:
    """A two-layer llama of random weights, without transformers; `schemes` as in `checkpoint_of`."""
    heads, kv_heads, dim, vocab = 4, 2, hidden // 4, 160
    config = {
        "hidden_size": hidden, "intermediate_size": inner, "num_hidden_layers": 2, "num_attention_heads": heads,
        "num_key_value_heads": kv_heads, "vocab_size": vocab, "max_position_embeddings": 256,
        "tie_word_embeddings": tied, "attention_bias": bias,
    }  # fmt: skip
    shapes: dict[str, tuple[int, ...]] = {
        "model.embed_tokens.weight": (vocab, hidden),
        "model.norm.weight": (hidden,),
    }
    if not tied:
        shapes["lm_head.weight"] = (vocab, hidden)
    for i in range(2):
        at = f"model.layers.{i}."
        projections = {
            "self_attn.q_proj": (heads * dim, hidden), "self_attn.k_proj": (kv_heads * dim, hidden),
            "self_attn.v_proj": (kv_heads * dim, hidden), "self_attn.o_proj": (hidden, heads * dim),
            "mlp.gate_proj": (inner, hidden), "mlp.up_proj": (inner, hidden), "mlp.down_proj": (hidden, inner),
        }  # fmt: skip
        shapes |= {f"{at}{name}.weight": shape for name, shape in projections.items()}
        shapes |= {
            f"{at}{name}.bias": shape[:1] for name, shape in projections.items() if bias and "attn" in name
        }
        shapes |= {
            f"{at}{name}.weight": (hidden,) for name in ("input_layernorm", "post_attention_layernorm")
        }
    rng = np.random.default_rng(17)
    held = {}
    for name, shape in shapes.items():
        value = rng.standard_normal(shape).astype(np.float32)
        value = value * shape[1] ** -0.5 if len(shape) == 2 else value * 0.2 + ("norm" in name)
        scheme = next((s for part, s in (schemes or {}).items() if part in name and len(shape) == 2), PLAIN)
        held[name] = quantize(value.astype(np.float32), scheme)
    return ArrayCheckpoint("llama", config, held)
