"""Classes of several models around a text model that is served: where its config lies, and how its tensors are called there.

What is not the text model (towers of images and sound, projectors, speech) is named by component, so that nothing is left out
in silence. Of a text model for images only text is served: positions then are the same in all three sections of its rotary
embedding, so the sections do not matter.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from fewbit.formats.folder.names import Names, TextModel
from fewbit.spec.refusal import CheckpointError


@dataclass(frozen=True, slots=True)
class Wrapper:
    """`text`: the keys that lead to the text model's config, () where it lies flat. `tied`: where neither config speaks of it."""

    text: tuple[str, ...] = ("text_config",)
    tied: bool = False


WRAPPERS: dict[str, Wrapper] = {
    **dict.fromkeys(
        ("llava", "llava_next", "llava_next_video", "llava_onevision", "vipllava", "video_llava", "qwen2_audio", "voxtral",
         "idefics3", "smolvlm", "qwen2_vl", "qwen2_5_vl", "qwen3_vl", "minimax_m3_vl"),
        Wrapper(),
    ),
    "mistral3": Wrapper(tied=True),
    "internvl": Wrapper(tied=True),
    "internvl_chat": Wrapper(("llm_config",)),
    "qwen2_5_omni": Wrapper(("thinker_config", "text_config"), tied=True),
    "qwen2_5_omni_thinker": Wrapper(tied=True),
}  # fmt: skip
FLAT = frozenset({"qwen2_vl", "qwen2_5_vl"})
"""Their older files have the text model's keys beside `vision_config`."""

PREFIXES = (
    ("language_model.model.", "model."), ("language_model.lm_head.", "lm_head."), ("language_model.lm_head", "lm_head"),
    ("model.language_model.", "model."), ("thinker.model.", "model."), ("thinker.lm_head.", "lm_head."),
    ("thinker.lm_head", "lm_head"), ("model.text_model.", "model."),
)  # fmt: skip
AROUND = ("model.", "thinker.")
VISION, AUDIO, PROJECTOR, SPEECH = "vision tower", "audio tower", "projector", "speech output"
TOWERS = (
    *(
        (f"{name}.", VISION)
        for name in ("visual", "vision_tower", "vision_model", "image_tower", "video_tower")
    ),
    *((f"{name}.", AUDIO) for name in ("audio_tower", "audio_model")),
    *((f"{name}.", PROJECTOR) for name in ("multi_modal_projector", "connector", "mlp1", "patch_merge_mlp")),
    ("image_newline", PROJECTOR),
    *((f"{name}.", SPEECH) for name in ("talker", "token2wav")),
)
MIXTURE = (("block_sparse_moe", "mlp"), ("w1", "gate_proj"), ("w3", "up_proj"), ("w2", "down_proj"))
SEGMENTS = dict.fromkeys(("mixtral", "minimax", "minimax_m2", "minimax_m3_vl_text", "phimoe"), MIXTURE)

_NESTED_QWEN = {"rope_theta": 1e6, "max_position_embeddings": 32768}
TEXT_TYPES: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("llama", {"vocab_size": 32000, "hidden_size": 4096, "intermediate_size": 11008, "num_hidden_layers": 32,
                        "num_attention_heads": 32, "max_position_embeddings": 2048}),
    "mistral": ("mistral", {"vocab_size": 32000, "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
                            "num_attention_heads": 32, "num_key_value_heads": 8, "max_position_embeddings": 131072}),
    "qwen2": ("qwen2", {"vocab_size": 151936, "hidden_size": 4096, "intermediate_size": 22016, "num_hidden_layers": 32,
                        "num_attention_heads": 32, "num_key_value_heads": 32, "max_position_embeddings": 32768}),
    "qwen3": ("qwen3", {"vocab_size": 151936, "hidden_size": 4096, "intermediate_size": 22016, "num_hidden_layers": 32,
                        "num_attention_heads": 32, "num_key_value_heads": 32, "head_dim": 128,
                        "max_position_embeddings": 32768}),
    **dict.fromkeys(
        ("qwen2_vl_text", "qwen2_5_vl_text", "qwen2_vl", "qwen2_5_vl"),
        ("qwen2", {"vocab_size": 152064, "hidden_size": 8192, "intermediate_size": 29568, "num_hidden_layers": 80,
                   "num_attention_heads": 64, "num_key_value_heads": 8, "rms_norm_eps": 1e-5, **_NESTED_QWEN}),
    ),
    "qwen2_5_omni_text": ("qwen2", {"vocab_size": 152064, "hidden_size": 3584, "intermediate_size": 18944,
                                    "num_hidden_layers": 28, "num_attention_heads": 28, "num_key_value_heads": 4,
                                    **_NESTED_QWEN}),
    "qwen3_vl_text": ("qwen3", {"vocab_size": 151936, "hidden_size": 4096, "intermediate_size": 22016,
                                "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 32,
                                "head_dim": 128, "max_position_embeddings": 128000, "rope_theta": 500000.0}),
}  # fmt: skip
"""Model type of a text config to the served one, and what its class takes for the keys that a nested config leaves out."""

OTHERS = frozenset({
    "image_token_id", "video_token_id", "audio_token_id", "image_token_index", "video_token_index", "audio_token_index",
    "vision_start_token_id", "vision_end_token_id", "vision_token_id", "init_std", "architectures", "vision_config",
    "text_config", "audio_config",
})  # fmt: skip
"""Keys that may stand among the text model's own and say nothing of it."""


def find_text(config: Mapping[str, Any], tensors: Collection[str]) -> TextModel:
    """The text model of a folder: the whole, or what the wrapper holds."""
    kind = str(config.get("model_type"))
    wrapper = WRAPPERS.get(kind)
    if wrapper is None:
        prefixed = any(name.startswith(ours) for name in tensors for ours, _ in PREFIXES)
        return TextModel(dict(config), names=Names(PREFIXES if prefixed else (), SEGMENTS.get(kind, ())))
    path = () if kind in FLAT and wrapper.text[0] not in config else wrapper.text
    text = _text_config(config, path, kind)
    own = str(text.get("model_type", kind))
    names = Names(PREFIXES, SEGMENTS.get(own, ()), TOWERS, AROUND, kind)
    served, defaults = TEXT_TYPES.get(own, (own, {}))
    flat = {
        **defaults,
        **{key: value for key, value in text.items() if key not in OTHERS},
        "model_type": served,
    }
    if own in TEXT_TYPES:
        said = [level["tie_word_embeddings"] for level in (config, text) if "tie_word_embeddings" in level]
        head = any(names.canonical(name).startswith("lm_head.") for name in tensors)
        flat["tie_word_embeddings"] = not head and (True in said if said else wrapper.tied)
        flat |= {
            key: _without_sections(flat[key]) for key in ("rope_scaling", "rope_parameters") if key in flat
        }
    for key in ("bos_token_id", "eos_token_id", "pad_token_id"):
        if flat.get(key) is None and config.get(key) is not None:
            flat[key] = config[key]
    return TextModel(flat, ": ".join(path), names)


def _text_config(config: Mapping[str, Any], path: tuple[str, ...], kind: str) -> Mapping[str, Any]:
    text: Any = config
    for key in path:
        text = text.get(key)
        if not isinstance(text, Mapping):
            raise CheckpointError(
                f"config.json: model type {kind!r} needs the object {'.'.join(path)!r} for its text model, found "
                f"{key} = {repr(text)[:80]}; the folder is incomplete"
            )
    return text


def _without_sections(rope: Any) -> Any:
    if not isinstance(rope, Mapping):
        return rope
    kept = {key: value for key, value in rope.items() if key not in ("mrope_section", "mrope_interleaved")}
    for key in ("type", "rope_type"):
        if kept.get(key) == "mrope":
            kept[key] = "default"
    return kept
