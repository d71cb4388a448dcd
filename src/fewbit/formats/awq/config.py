"""AWQ's configuration, from config.json or a side file, every key declared."""

from __future__ import annotations

from dataclasses import dataclass

from fewbit.formats.folder.config import Reader
from fewbit.formats.folder.files import Declaration, FolderFiles
from fewbit.formats.folder.keys import Key

VERSIONS = ("gemm", "gemv", "gemv_fast", "marlin")

_VERSION = Key("string", only=tuple(name for v in VERSIONS for name in (v, v.upper())))
KEYS: dict[str, Key] = {
    "quant_method": Key("string", only=("awq",)),
    "method": Key("string", only=("awq",)),
    "bits": Key("count", only=(4,)),
    "w_bit": Key("count", only=(4,)),
    "group_size": Key("whole"),
    "q_group_size": Key("whole"),
    "zero_point": Key("bool", default=True),
    "sym": Key("bool"),
    "version": _VERSION,
    "format": _VERSION,
    "checkpoint_format": _VERSION,
    "modules_to_not_convert": Key("strings", default=[]),
    "lm_head": Key("bool", default=False),
    "desc_act": Key("bool", default=False, only=(False,)),
    "pack_dtype": Key("string", default="int32", only=("int32",)),
    "data_type": Key("string", default="int", only=("int",)),
}
# How the weights were found, or how another library runs them: nothing here changes what the tensors mean.
HARMLESS = frozenset({
    "meta", "backend", "do_fuse", "fuse_max_seq_len", "modules_to_fuse", "exllama_config", "provider", "autoround_version",
    "amp", "enable_quanted_input", "to_quant_block_names", "block_name_to_quantize", "iters", "batch_size", "seqlen",
    "nsamples", "low_gpu_mem_usage", "model_name_or_path", "model_file_base_name", "true_sequential",
})  # fmt: skip
_SIDE_FILES = ("quantize_config.json", "quant_config.json", "quantization_config.json")
_OLDER = {"bits": "w_bit", "group_size": "q_group_size"}
_SAME = ("bits", "group_size", "zero_point", "version", "modules_to_not_convert")


@dataclass(frozen=True, slots=True)
class Settings:
    """How a module is stored. `group_size` -1: one group; without `zero_point` every zero point is the middle, 8."""

    group_size: int
    zero_point: bool = True
    version: str = "gemm"


@dataclass(frozen=True, slots=True)
class AwqConfig:
    """`plain`: parts of the names of modules that are left unquantized."""

    where: str
    settings: Settings
    lm_head: bool = False
    plain: tuple[str, ...] = ()

    def plain_by(self, module: str) -> str | None:
        """The entry of modules_to_not_convert that names the module by whole components. AutoAWQ also lets `mlp.gate` match
        inside `mlp.gate_proj`: such a match decides nothing, the tensors do."""
        return next((entry for entry in self.plain if f".{entry}." in f".{module}."), None)


def find_declaration(files: FolderFiles) -> Declaration | None:
    """config.json's own wins over the side files; AutoAWQ's oldest quant_config.json does not name its method."""
    found = files.declarations.get("quantization_config")
    if found is not None:
        return found if found.method == "awq" else None
    for key in _SIDE_FILES:
        found = files.declarations.get(key)
        if found is not None:
            old = {"w_bit", "q_group_size"} <= found.values.keys() and not found.method
            return found if found.method == "awq" or old else None
    return None


def read_settings(files: FolderFiles) -> AwqConfig:
    declaration = find_declaration(files)
    assert declaration is not None
    reader = Reader(declaration.where, declaration.values)
    values = reader.all(KEYS, HARMLESS, "the format awq")
    _check_twins(reader, declaration.key, files)
    versions = {
        name: values[name].lower() for name in ("version", "format", "checkpoint_format") if values[name]
    }
    if len(set(versions.values())) > 1:
        reader.fail(
            f"has {' and '.join(f'{k} {v!r}' for k, v in versions.items())}, which contradict each other"
        )
    _one_of(reader, "bits", "w_bit", values["bits"], values["w_bit"])
    size = _one_of(reader, "group_size", "q_group_size", values["group_size"], values["q_group_size"])
    if size != -1 and size < 1:
        reader.fail(f"key 'group_size' is {size}, expected -1 (one group) or at least 1")
    if values["sym"] is not None and values["sym"] == values["zero_point"]:
        reader.fail(
            f"has sym {str(values['sym']).lower()} and zero_point {str(values['zero_point']).lower()}, which contradict each other"
        )
    settings = Settings(size, values["zero_point"], next(iter(versions.values()), "gemm"))
    return AwqConfig(declaration.where, settings, values["lm_head"], tuple(values["modules_to_not_convert"]))


def _one_of(reader: Reader, name: str, older: str, value: int | None, old_value: int | None) -> int:
    """The value of a key that has an older name."""
    if value is None and old_value is None:
        reader.fail(f"key {name!r} is absent, expected a whole number; the tensors cannot be read without it")
    if None not in (value, old_value) and value != old_value:
        reader.fail(f"has {name} {value} and {older} {old_value}, which contradict each other")
    found = old_value if value is None else value
    assert found is not None
    return found


def _check_twins(reader: Reader, key: str, files: FolderFiles) -> None:
    """Where several files declare, they agree on what decides the numbers."""
    for name in _SIDE_FILES:
        twin = files.declarations.get(name)
        if twin is None or name == key:
            continue
        for same in _SAME:
            ours, theirs = (
                values.get(same, values.get(_OLDER.get(same, ""))) for values in (reader.values, twin.values)
            )
            if same == "version":  # AutoAWQ writes gemm here and GEMM there
                ours, theirs = (v.lower() if isinstance(v, str) else v for v in (ours, theirs))
            if None not in (ours, theirs) and ours != theirs:
                reader.fail(
                    f"key {same!r} is {str(ours)[:80]}, but {twin.where} says {str(theirs)[:80]}; expected the same in both"
                )
