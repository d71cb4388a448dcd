"""How data/ was made: hqq 0.2.8.post1 and transformers 4.53.3, on a machine without a GPU (torch 2.13.0).

    python tests/formats/hqq/write_data.py tests/formats/hqq/data

`sha256.json` holds, for each quantized weight, the hash of what hqq itself dequantizes in f32.
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path

import torch
from hqq.core.quantize import HQQLinear, Quantizer
from transformers import AutoModelForCausalLM, HqqConfig, LlamaConfig, LlamaForCausalLM

LAYERS = {
    "self_attn.q_proj": {"nbits": 4, "group_size": 16, "axis": 1},
    "self_attn.k_proj": {"nbits": 3, "group_size": 16, "axis": 1},
    "self_attn.v_proj": {"nbits": 2, "group_size": 8, "axis": 0},
    "self_attn.o_proj": {"nbits": 8, "group_size": None, "axis": 1},
    "mlp.gate_proj": {"nbits": 1, "group_size": 24, "axis": 1},
    "mlp.up_proj": {"nbits": 4, "group_size": 16, "axis": 0},
    "mlp.down_proj": {"nbits": 3, "group_size": 24, "axis": 0, "view_as_float": True},
}


def main(out: Path) -> None:
    torch.manual_seed(7)
    config = LlamaConfig(
        hidden_size=32, intermediate_size=48, num_hidden_layers=1, num_attention_heads=4, num_key_value_heads=2,
        vocab_size=16, head_dim=8, max_position_embeddings=64,
    )  # fmt: skip
    plain = out / "plain"
    LlamaForCausalLM(config).half().save_pretrained(plain)
    torch.cuda.is_available = lambda: True  # type: ignore[assignment]  # the check is all that it asks of one
    settings = HqqConfig(dynamic_config=LAYERS)
    model = AutoModelForCausalLM.from_pretrained(
        plain, torch_dtype=torch.float16, quantization_config=settings
    )
    model.save_pretrained(out)
    hashes = {}
    for name, module in model.named_modules():
        if isinstance(module, HQQLinear):
            meta = {**module.meta, "compute_dtype": torch.float32}
            weight = Quantizer.dequantize(module.W_q.data, meta)
            assert weight.dtype == torch.float32
            hashes[f"{name}.weight"] = hashlib.sha256(weight.contiguous().numpy().tobytes()).hexdigest()
    (out / "sha256.json").write_text(json.dumps(hashes, indent=1))
    for file in plain.iterdir():
        file.unlink()
    plain.rmdir()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
