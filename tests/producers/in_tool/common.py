"""Runs inside a tool's own environment, which has no fewbit: jobs come as JSON, answers go out as safetensors.

usage: python with_<tool>.py JOBS.json      a list of {"id", "do": "write" | "read", "folder", "out", "case": {...}}

`write` makes a checkpoint of a random model in the folder, `read` opens the one that lies there; both store in `out` what the
tool itself takes each quantized weight for. JOBS.json.done gets {id: traceback, or "" when all went well}.
"""

from __future__ import annotations

import json
import sys
import traceback
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

Weights = dict[str, torch.Tensor]
Job = Callable[[Path, dict[str, Any]], Weights]
VOCAB = 288
DTYPES = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32}


def main(**jobs: Job) -> None:
    path = Path(sys.argv[1])
    done = {}
    for job in json.loads(path.read_text()):
        try:
            torch.manual_seed(0)
            weights = jobs[job["do"]](Path(job["folder"]), job["case"])
            assert weights, "the tool quantized nothing"
            kept = {name: value.detach().float().contiguous().clone() for name, value in weights.items()}
            save_file(kept, job["out"])
            done[job["id"]] = ""
        except Exception:
            done[job["id"]] = traceback.format_exc()
    path.with_suffix(".json.done").write_text(json.dumps(done))


def llama_config(case: dict[str, Any]) -> dict[str, Any]:
    """Sizes are the case's: hidden, inner, layers."""
    return {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": VOCAB,
        "hidden_size": case["hidden"], "intermediate_size": case["inner"], "num_hidden_layers": case.get("layers", 1),
        "num_attention_heads": case["hidden"] // 32, "num_key_value_heads": case["hidden"] // 64, "head_dim": 32,
        "hidden_act": "silu", "rms_norm_eps": 1e-5, "max_position_embeddings": 512, "rope_theta": 10000.0,
        "tie_word_embeddings": False, "attention_bias": False, "bos_token_id": 0, "eos_token_id": 0,
    }  # fmt: skip


def llama(case: dict[str, Any], dtype: str = "bf16") -> Any:
    """A model of random weights by the case's seed; some outliers, as trained models have them."""
    import transformers

    values = llama_config(case)
    config = transformers.LlamaConfig(**{k: v for k, v in values.items() if k not in ("model_type",)})
    model = transformers.LlamaForCausalLM(config).to(DTYPES[dtype]).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(random_tensor(name, tuple(parameter.shape), case["seed"]))
    return model


def random_tensor(name: str, shape: tuple[int, ...], seed: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(zlib.crc32(f"{seed} {name}".encode()))
    if len(shape) == 1:
        return 0.5 + torch.rand(shape, generator=generator)
    value = torch.randn(shape, generator=generator) * 0.06
    return torch.where(torch.rand(shape, generator=generator) < 0.002, value * 6, value)


def token_ids(case: dict[str, Any], rows: int, length: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(case["seed"] + 1)
    return torch.randint(0, VOCAB, (rows, length), generator=generator)


def save_llama(folder: Path, case: dict[str, Any], dtype: str = "bf16") -> Path:
    """The model unquantized, with a tokenizer of single bytes, for tools that want a folder."""
    folder.mkdir(parents=True)
    llama(case, dtype).save_pretrained(folder)
    save_tokenizer(folder)
    return folder


def tokenizer() -> Any:
    import tokenizers
    import transformers

    alphabet = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {"<|end|>": 0} | {character: i + 1 for i, character in enumerate(alphabet)}
    inner = tokenizers.Tokenizer(tokenizers.models.BPE(vocabulary, []))
    inner.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = tokenizers.decoders.ByteLevel()
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=inner, bos_token="<|end|>", eos_token="<|end|>", pad_token="<|end|>"
    )


def save_tokenizer(folder: Path) -> None:
    tokenizer().save_pretrained(folder)


def stored_tensors(folder: Path) -> Weights:
    found: Weights = {}
    for file in sorted(folder.glob("*.safetensors")):
        found |= load_file(file)
    return found


def linears(model: Any) -> dict[str, Any]:
    """The projections of the layers by name: what is quantized."""
    return {n: m for n, m in model.named_modules() if isinstance(m, torch.nn.Linear) and n != "lm_head"}
