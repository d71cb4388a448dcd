"""The keys of a config that decide on a model, in one spelling, whichever format and writer they come from."""

from __future__ import annotations

from typing import Any

from fewbit.formats.checkpoint import Checkpoint
from fewbit.formats.folder.config import Reader
from fewbit.formats.folder.keys import HARMLESS, UNSERVED
from fewbit.formats.folder.rope import rope

OF_TRAINING = frozenset({"architectures", "output_router_logits", "router_aux_loss_coef"})
DEFAULTS = {"tie_word_embeddings": False, "attention_bias": False, "rope_theta": None}


def settled_config(checkpoint: Checkpoint) -> dict[str, Any]:
    """Configs of families that are served are settled when they are read; the others come as their file has them."""
    config = dict(checkpoint.config)
    if checkpoint.format == "gguf" or config["model_type"] not in UNSERVED:
        return config
    config = DEFAULTS | {key: value for key, value in config.items() if key not in HARMLESS | OF_TRAINING}
    config["rope_theta"], config["rope_scaling"] = rope(Reader(str(checkpoint.path), config), config)
    config.pop("rope_parameters", None)
    if config["model_type"] == "qwen3_moe":  # written under either name
        experts = config.pop("num_local_experts", None)
        config.setdefault("num_experts", experts)
    return config
