"""GPTQ's configuration, from config.json or quantize_config.json, every key declared."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any

from fewbit.formats.folder.config import Reader
from fewbit.formats.folder.files import Declaration, FolderFiles
from fewbit.formats.folder.keys import Key

BITS = (2, 3, 4, 8)
PLANAR_BITS = (2, 3, 4, 5, 6, 7, 8)
CHECKPOINT_FORMATS = ("gptq", "gptq_v2", "gptq_p")
MAX_PATTERN = 1000

_FORMAT = Key("string", only=(*CHECKPOINT_FORMATS, "marlin"))
KEYS: dict[str, Key] = {
    "quant_method": Key("string", only=("gptq",)),
    "method": Key("string", only=("gptq",)),
    "bits": Key("count", required=True, only=PLANAR_BITS),
    "group_size": Key("whole", required=True),
    "sym": Key("bool", default=True),
    "desc_act": Key("bool", default=False),
    "lm_head": Key("bool", default=False),
    "checkpoint_format": _FORMAT,
    "format": _FORMAT,
    "is_marlin_format": Key("bool", default=False),
    "pack_dtype": Key("string", default="int32", only=("int32",)),
    "dynamic": Key("object"),
}
OVERRIDES: dict[str, Key] = {
    "bits": Key("count", only=PLANAR_BITS),
    "group_size": Key("whole"),
    "sym": Key("bool"),
    "desc_act": Key("bool"),
}
# How the weights were found, or how another library runs them: nothing here changes what the tensors mean.
HARMLESS = frozenset({
    "meta", "true_sequential", "static_groups", "damp_percent", "damp_auto_increment", "mse", "act_group_aware", "quantizer",
    "model_name_or_path", "model_file_base_name", "dataset", "tokenizer", "batch_size", "block_name_to_quantize",
    "modules_in_block_to_quantize", "module_name_preceding_first_block", "pad_token_id", "model_seqlen", "use_cuda_fp16",
    "use_exllama", "disable_exllama", "exllama_config", "max_input_length", "cache_block_outputs", "backend", "adapter",
    "parallel_packing", "device", "offload_to_disk", "offload_to_disk_path", "rotation", "is_mixed_precision",
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class Settings:
    """How a module is stored. `group_size` -1: one group. `version` 1 stores zero points less one; `planar`: in bit planes;
    `marlin`: in the order of Marlin's kernel."""

    bits: int
    group_size: int
    sym: bool
    desc_act: bool = False
    version: int = 2
    planar: bool = False
    marlin: bool = False


@dataclass(frozen=True, slots=True)
class Rule:
    """An entry of `dynamic`: modules whose whole name begins with a match of `pattern` are skipped, or stored as `changes` say."""

    text: str
    pattern: re.Pattern[str]
    skip: bool
    changes: dict[str, Any]


@dataclass(frozen=True, slots=True)
class GptqConfig:
    where: str
    settings: Settings
    lm_head: bool
    rules: tuple[Rule, ...]

    def rule_of(self, module: str) -> Rule | None:
        """The first that matches."""
        return next((rule for rule in self.rules if rule.pattern.match(module)), None)

    def settings_of(self, rule: Rule | None) -> Settings:
        return replace(self.settings, **rule.changes) if rule else self.settings


def find_declaration(files: FolderFiles) -> Declaration | None:
    """config.json's own wins over the side file; AutoGPTQ's oldest side files do not name their method."""
    for key in ("quantization_config", "quantize_config.json"):
        found = files.declarations.get(key)
        if found is not None and (found.method or found.values.get("method", "gptq")) == "gptq":
            if found.method or (
                key == "quantize_config.json" and {"bits", "desc_act"} <= found.values.keys()
            ):
                return found
        elif found is not None:
            return None
    return None


def read_settings(files: FolderFiles) -> GptqConfig:
    declaration = find_declaration(files)
    assert declaration is not None
    reader = Reader(declaration.where, declaration.values)
    values = reader.all(KEYS, HARMLESS, "the format gptq")
    _check_twin(reader, files)
    named = values["checkpoint_format"] or values["format"]
    stored = named or ("marlin" if values["is_marlin_format"] else "gptq")
    if values["format"] not in (None, stored):
        reader.fail(
            f"has checkpoint_format {stored!r} and format {values['format']!r}, which contradict each other"
        )
    if values["is_marlin_format"] and stored != "marlin":
        reader.fail(
            f"has checkpoint_format {stored!r} and is_marlin_format true, which contradict each other"
        )
    settings = Settings(
        values["bits"], values["group_size"], values["sym"], values["desc_act"],
        version=1 if stored == "gptq" else 2, planar=stored == "gptq_p", marlin=stored == "marlin",
    )  # fmt: skip
    _check(reader, settings)
    rules = tuple(
        _rule(reader, text, changes, settings) for text, changes in (values["dynamic"] or {}).items()
    )
    return GptqConfig(declaration.where, settings, values["lm_head"], rules)


def _check(reader: Reader, settings: Settings) -> None:
    if settings.marlin and (settings.bits != 4 or not settings.sym or settings.desc_act):
        reader.fail(
            "is a serialized Marlin checkpoint, which has symmetric codes of 4 bits without activation order, but bits is "
            f"{settings.bits}, sym {str(settings.sym).lower()} and desc_act {str(settings.desc_act).lower()}"
        )
    allowed = PLANAR_BITS if settings.planar else BITS
    if settings.bits not in allowed:
        reader.fail(
            f"key 'bits' is {settings.bits}, which is not supported (supported: {', '.join(map(str, allowed))})"
        )
    if settings.group_size != -1 and settings.group_size < 1:
        reader.fail(f"key 'group_size' is {settings.group_size}, expected -1 (one group) or at least 1")


def _rule(reader: Reader, text: str, changes: Any, settings: Settings) -> Rule:
    sign, pattern = (text[:2], text[2:]) if text[:2] in ("+:", "-:") else ("+:", text)
    where = f"{reader.where}: dynamic rule {text!r}"
    own = Reader(where, changes if isinstance(changes, dict) else {})
    if not isinstance(changes, dict):
        own.fail(f"is {repr(changes)[:80]}, expected an object of settings")
    if len(pattern) > MAX_PATTERN:
        own.fail(f"has {len(pattern)} characters, expected at most {MAX_PATTERN}")
    try:
        compiled = re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        own.fail(f"is no regular expression ({error})")
    values = {
        key: value
        for key, value in own.all(OVERRIDES, HARMLESS, "a dynamic rule").items()
        if value is not None
    }
    if sign == "+:":
        _check(own, replace(settings, **values))
    return Rule(text, compiled, sign == "-:", values)


def _check_twin(reader: Reader, files: FolderFiles) -> None:
    """Where both files declare, they agree on what decides the numbers."""
    twin = files.declarations.get("quantize_config.json")
    for key in ("bits", "group_size", "sym", "desc_act", "checkpoint_format", "dynamic"):
        if (
            twin is not None
            and key in twin.values
            and key in reader.values
            and twin.values[key] != reader.values[key]
        ):
            reader.fail(
                f"key {key!r} is {str(reader.values[key])[:80]}, but {twin.where} says {str(twin.values[key])[:80]}; expected the "
                "same in both"
            )
