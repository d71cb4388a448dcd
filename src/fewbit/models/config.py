"""Reads Hugging Face config keys by declaration: each with its type; an unknown key is an error with its name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fewbit.spec.refusal import CheckpointError

REQUIRED: Any = object()


@dataclass(frozen=True, slots=True)
class Key:
    """`type` of the value (None is allowed where the default is None). `only`: the values that are covered."""

    name: str
    type: type
    default: Any = REQUIRED
    least: float | None = None
    only: tuple[Any, ...] = ()

    def read(self, config: Mapping[str, Any]) -> Any:
        value = config.get(self.name, self.default)
        if value is REQUIRED:
            raise CheckpointError(
                f"config has no {self.name}, which this architecture needs; expected {self.type.__name__}"
            )
        if value is None and self.default is not REQUIRED:  # null means: as if the key were absent
            return self.default
        if self.type is float and type(value) is int:
            value = float(value)
        if type(value) is not self.type:
            raise CheckpointError(f"config has {self.name} = {value!r}; expected {self.type.__name__}")
        if self.least is not None and not value >= self.least:
            raise CheckpointError(f"config has {self.name} = {value!r}; expected at least {self.least}")
        if self.only and value not in self.only:
            offered = ", ".join(repr(v) for v in self.only)
            raise CheckpointError(
                f"config has {self.name} = {value!r}, which is not supported; supported: {offered}"
            )
        return value


def read_config(config: Mapping[str, Any], keys: tuple[Key, ...], ignored: frozenset[str]) -> dict[str, Any]:
    """Every declared key's value. `ignored` are keys known to have no effect on inference."""
    unknown = sorted(set(config) - {key.name for key in keys} - ignored)
    if unknown:
        raise CheckpointError(
            f"config has {unknown[0]} = {config[unknown[0]]!r}, which this architecture does not know; it may change what the "
            "model computes, so it is not loaded"
        )
    return {key.name: key.read(config) for key in keys}


_IGNORED = """
architectures auto_map model_type name_or_path _name_or_path _commit_hash transformers_version transformers.js_config
torch_dtype dtype unsloth_version unsloth_fixed is_llama_config

attention_dropout initializer_range use_cache use_return_dict return_dict output_attentions output_hidden_states
gradient_checkpointing pretraining_tp

bos_token_id eos_token_id pad_token_id unk_token_id sep_token_id cls_token_id decoder_start_token_id
forced_bos_token_id forced_eos_token_id

chunk_size_feed_forward cross_attention_hidden_size finetuning_task id2label label2id is_decoder num_labels problem_type
prefix pruned_heads task_specific_params tf_legacy_loss tie_encoder_decoder tokenizer_class torchscript use_bfloat16
attn_implementation _attn_implementation _attn_implementation_autoset
num_beams temperature top_k top_p typical_p do_sample max_length min_length diversity_penalty num_beam_groups
num_return_sequences repetition_penalty length_penalty no_repeat_ngram_size encoder_no_repeat_ngram_size bad_words_ids
early_stopping output_scores return_dict_in_generate exponential_decay_length_penalty suppress_tokens
begin_suppress_tokens remove_invalid_values
"""
IGNORED = frozenset(_IGNORED.split())
"""Keys without effect on what a decoder computes: what the file is and how it was made; training; token ids, on which the
tokenizer's files decide; and the defaults that older versions of transformers wrote into every config."""
