"""AutoRound's configuration, from config.json or quantization_config.json, every key declared."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from fewbit.formats.folder.config import Reader
from fewbit.formats.folder.files import Declaration, FolderFiles
from fewbit.formats.folder.keys import Key

METHOD = "auto-round"
GPTQ, AWQ, FP8, FP8_BLOCKS, FLOATS = (
    f"auto_round:{name}" for name in ("auto_gptq", "auto_awq", "fp8_static", "fp8", "llm_compressor")
)
STORED: dict[str, dict[str, tuple[int, ...]]] = {
    GPTQ: {"int": (2, 3, 4, 8)},
    AWQ: {"int": (4,)},
    FP8: {"fp": (8,)},
    FP8_BLOCKS: {"fp": (8,)},
    FLOATS: {"mx_fp": (4, 8), "nv_fp": (4,)},
}
"""Data types that each packing stores, with their widths."""
PLAIN_BITS = 16
MAX_PATTERN = 1000
_SPECIAL = set(r"*+?^$()[]{}|\\")

KEYS: dict[str, Key] = {
    "quant_method": Key("string", required=True, only=(METHOD,)),
    "bits": Key("count", required=True),
    "group_size": Key("any", required=True),
    "weight_block_size": Key("any"),
    "sym": Key("bool", default=True),
    "data_type": Key("string", default="int"),
    "packing_format": Key("string", default=GPTQ, only=tuple(STORED)),
    "extra_config": Key("object", default={}),
    "act_bits": Key("count"),
    "act_data_type": Key("string"),
    "act_group_size": Key("whole"),
    "act_sym": Key("bool"),
    "act_dynamic": Key("bool"),
    "fmt": Key("string", default="e4m3", only=("e4m3",)),
    "activation_scheme": Key("string"),
}
OVERRIDES: dict[str, Key] = {
    "bits": Key("count"),
    "group_size": Key("any"),
    "sym": Key("bool"),
    "data_type": Key("string"),
}
# How the weights were found, or which modules the tool looked at; activations where they stay in 16 bits.
HARMLESS = frozenset({
    "autoround_version", "amp", "enable_quanted_input", "enable_minmax_tuning", "block_name_to_quantize",
    "to_quant_block_names", "iters", "lr", "minmax_lr", "nsamples", "seqlen", "batch_size", "gradient_accumulate_steps",
    "low_gpu_mem_usage", "backend", "scale_dtype", "dataset", "model_free", "provider",
})  # fmt: skip
_OF_ACTIVATIONS = frozenset({"act_bits", "act_data_type", "act_group_size", "act_sym", "act_dynamic"})


@dataclass(frozen=True, slots=True)
class Settings:
    """How a module is stored. `group_size` -1: one group, 0: one scale for the whole tensor, or blocks of `block` rows x
    columns. `bits` 16: plain."""

    bits: int
    group_size: int
    sym: bool = True
    data_type: str = "int"
    packing: str = GPTQ
    block: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Rule:
    """An entry of extra_config: a module's own name, or a pattern that is searched in it."""

    text: str
    pattern: re.Pattern[str] | None
    changes: dict[str, Any]


@dataclass(frozen=True, slots=True)
class AutoRoundConfig:
    where: str
    settings: Settings
    rules: tuple[Rule, ...] = ()

    def named(self, module: str) -> Rule | None:
        """The entry of exactly this name."""
        return next((rule for rule in self.rules if rule.text == module), None)

    def matched(self, module: str) -> Rule | None:
        """The first pattern that is found in the name."""
        return next((rule for rule in self.rules if rule.pattern and rule.pattern.search(module)), None)

    def rule_of(self, names: Sequence[str]) -> Rule | None:
        """Of a module by all its names: an entry of exactly one of them, else a pattern."""
        for find in (self.named, self.matched):
            if found := next(filter(None, map(find, names)), None):
                return found
        return None

    def settings_of(self, rule: Rule | None) -> Settings:
        return replace(self.settings, **rule.changes) if rule else self.settings


def find_declaration(files: FolderFiles) -> Declaration | None:
    """config.json's own wins over the side file."""
    for key in ("quantization_config", "quantization_config.json"):
        found = files.declarations.get(key)
        if found is not None:
            return found if found.method == METHOD else None
    return None


def read_settings(files: FolderFiles) -> AutoRoundConfig:
    declaration = find_declaration(files)
    assert declaration is not None
    reader = Reader(declaration.where, declaration.values)
    values = reader.all(KEYS, HARMLESS, "the format auto_round")
    _check_twin(reader, files)
    size, block = _group_size(reader, values["group_size"])
    if values["weight_block_size"] is not None and values["weight_block_size"] != values["group_size"]:
        reader.fail(
            f"has group_size {str(values['group_size'])[:40]} and weight_block_size {str(values['weight_block_size'])[:40]}, "
            "which contradict each other"
        )
    settings = Settings(
        values["bits"], size, values["sym"], values["data_type"], values["packing_format"], block
    )
    _check(reader, settings)
    if settings.packing == FP8 and values["act_dynamic"] is not False:
        reader.fail("key 'act_dynamic' is not false, but the packing fp8_static has static input scales")
    rules = tuple(_rule(reader, text, changes, settings) for text, changes in values["extra_config"].items())
    return AutoRoundConfig(declaration.where, settings, rules)


def _group_size(reader: Reader, value: Any) -> tuple[int, tuple[int, int] | None]:
    if type(value) is int:
        return value, None
    pair = (
        isinstance(value, list) and len(value) == 2 and all(type(v) is int and 0 < v < 1 << 20 for v in value)
    )
    if not pair:
        reader.fail(f"key 'group_size' is {repr(value)[:80]}, expected a whole number, or two for blocks")
    return 0, (value[0], value[1])


def _check(reader: Reader, settings: Settings) -> None:
    types = STORED[settings.packing]
    if settings.bits >= PLAIN_BITS:
        return
    if settings.bits not in types.get(settings.data_type, ()):
        known = " or ".join(f"{', '.join(map(str, widths))} bits of {kind}" for kind, widths in types.items())
        reader.fail(
            f"says {settings.bits} bits of data_type {settings.data_type!r}, which the packing {settings.packing!r} does not "
            f"store here (supported: {known})"
        )
    if (settings.block is not None) != (settings.packing == FP8_BLOCKS):
        reader.fail(
            f"key 'group_size' is {list(settings.block) if settings.block else settings.group_size}, which the packing {settings.packing!r} does not have; it has "
            f"{'rows and columns of blocks' if settings.packing == FP8_BLOCKS else 'a whole number'}"
        )
    fixed = {"mx_fp": (32,), "nv_fp": (16,), "fp": (-1, 0)}.get(settings.data_type)
    if fixed and not settings.sym:
        reader.fail(f"key 'sym' is false, which {settings.data_type} cannot be")
    if settings.block:
        return
    if fixed and settings.group_size not in fixed:
        reader.fail(
            f"key 'group_size' is {settings.group_size}, expected {' or '.join(map(str, fixed))} for {settings.data_type}"
        )
    if not fixed and settings.group_size != -1 and settings.group_size < 1:
        reader.fail(f"key 'group_size' is {settings.group_size}, expected -1 (one group) or at least 1")


def _rule(reader: Reader, text: str, changes: Any, settings: Settings) -> Rule:
    where = f"{reader.where}: extra_config {text[:80]!r}"
    own = Reader(where, changes if isinstance(changes, dict) else {})
    if not isinstance(changes, dict):
        own.fail(f"is {repr(changes)[:80]}, expected an object of settings")
    values = own.all(OVERRIDES, HARMLESS | _OF_ACTIVATIONS, "extra_config")
    given = {key: value for key, value in values.items() if value is not None}
    if "group_size" in given:
        given["group_size"], given["block"] = _group_size(own, given["group_size"])
    _check(own, replace(settings, **given))
    return Rule(text, _pattern(own, text), given)


def _pattern(reader: Reader, text: str) -> re.Pattern[str] | None:
    """None for a plain name, as loaders of AutoRound tell them apart: by a character that is special in patterns."""
    if not _SPECIAL & set(text):
        return None
    if len(text) > MAX_PATTERN:
        reader.fail(f"has {len(text)} characters, expected at most {MAX_PATTERN}")
    try:
        return re.compile(text)
    except (re.error, OverflowError, RecursionError) as error:
        reader.fail(f"is no regular expression ({error})")


def _check_twin(reader: Reader, files: FolderFiles) -> None:
    """Where both files declare, they agree on what decides the numbers."""
    twin = files.declarations.get("quantization_config.json")
    for key in ("bits", "group_size", "sym", "data_type", "packing_format", "extra_config"):
        ours, theirs = reader.values.get(key), twin.values.get(key) if twin else None
        if twin and None not in (ours, theirs) and ours != theirs:
            reader.fail(
                f"key {key!r} is {str(ours)[:80]}, but {twin.where} says {str(theirs)[:80]}; expected the same in both"
            )
