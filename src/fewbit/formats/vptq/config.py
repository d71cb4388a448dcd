"""VPTQ's configuration: how each layer is stored, by its name or by the last part of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fewbit.formats.folder.config import Reader
from fewbit.formats.folder.files import FolderFiles
from fewbit.formats.folder.keys import Key

KEYS: dict[str, Key] = {
    "quant_method": Key("string", required=True, only=("vptq",)),
    "config_for_layers": Key("object", default={}),
    "shared_layer_config": Key("object", default={}),
    "modules_to_not_convert": Key("strings", default=()),
    "enable_proxy_error": Key("bool", default=False, only=(False,)),
}
LAYER: dict[str, Key] = {
    "vector_lens": Key("any", required=True),
    "num_centroids": Key("any", required=True),
    "num_res_centroids": Key("any", required=True),
    "group_num": Key("count", default=1),
    "group_size": Key("whole", required=True),
    "outlier_size": Key("whole", default=0),
    "in_features": Key("whole", default=-1),
    "out_features": Key("whole", default=-1),
    "enable_norm": Key("bool", default=True),
    "enable_perm": Key("bool", default=True),
    "norm_dim": Key("whole", default=0, only=(0,)),
    "indices_as_float": Key("bool", default=False, only=(False,)),
    "is_indice_packed": Key("bool", default=True, only=(True,)),
    "vector_quant_dim": Key("string", default="out", only=("out",)),
}
HARMLESS = frozenset({"version"})
HARMLESS_LAYER = frozenset({"bias", "enable_proxy_error", "device", "dtype"})
MOST = 1 << 16


@dataclass(frozen=True, slots=True)
class Vectors:
    """Of the main columns or the outliers: `rows` rows a vector, and how many there are to choose from; 0: no such vectors."""

    rows: int
    centroids: int
    residual: int = 0


@dataclass(frozen=True, slots=True)
class Layer:
    """How one module is stored. `n`, `k` -1: what the tensors say."""

    main: Vectors
    outlier: Vectors
    groups: int
    group_size: int
    outliers: int
    n: int = -1
    k: int = -1
    ordered: bool = True
    scaled: bool = True

    def __str__(self) -> str:
        return f"vectors of {self.main.rows}, {self.main.centroids} centroids and {self.main.residual} residual ones"


@dataclass(frozen=True, slots=True)
class VptqConfig:
    where: str
    by_name: dict[str, Layer]
    by_last: dict[str, Layer]
    plain: tuple[str, ...] = ()

    def plain_by(self, module: str) -> str:
        """The entry of modules_to_not_convert that is the module's name or some components of it, "" for none."""
        return next((entry for entry in self.plain if entry and f".{entry}." in f".{module}."), "")

    def spelled(self, module: str) -> str:
        """The module where `by_name` has it, "" where not."""
        return module if module in self.by_name else ""

    def layer_of(self, module: str) -> tuple[Layer | None, str]:
        """By its own name before the last part of it, and the rule that says so."""
        if module in self.by_name:
            return self.by_name[module], f"config_for_layers {module!r}"
        last = module.rpartition(".")[2]
        return self.by_last.get(last), f"shared_layer_config {last!r}"


def read_settings(files: FolderFiles) -> VptqConfig:
    declaration = files.declarations["quantization_config"]
    reader = Reader(declaration.where, declaration.values)
    values = reader.all(KEYS, HARMLESS, "the format vptq")
    by_name, by_last = (
        {name: _layer(f"{reader.where}: {key} {name!r}", entry) for name, entry in values[key].items()}
        for key in ("config_for_layers", "shared_layer_config")
    )
    return VptqConfig(reader.where, by_name, by_last, tuple(values["modules_to_not_convert"]))


def _layer(where: str, value: Any) -> Layer:
    reader = Reader(where, value if isinstance(value, dict) else {})
    if not isinstance(value, dict):
        reader.fail(f"is {repr(value)[:80]}, expected an object of settings")
    values = reader.all(LAYER, HARMLESS_LAYER, "a layer of vptq")
    rows, centroids, residual = (
        _pair(reader, key, values[key]) for key in ("vector_lens", "num_centroids", "num_res_centroids")
    )
    outliers = max(values["outlier_size"], 0)
    found = rows[0] > 1 and centroids[0] > 0
    if bool(outliers) != found or (found and residual[0] > 0):
        reader.fail(
            f"has outlier_size {outliers} and for outliers vector_lens {rows[0]}, num_centroids {centroids[0]}, "
            f"num_res_centroids {residual[0]}, which contradict each other or are not supported"
        )
    for name, many in (("num_centroids", centroids[1]), ("num_res_centroids", max(residual[1], 2))):
        if not 1 < many <= MOST or many & (many - 1):
            reader.fail(
                f"key {name!r} is {many}, expected a power of two up to {MOST}, since indices are packed"
            )
    if not 0 < rows[1] < MOST or (found and not (rows[0] < MOST and centroids[0] <= MOST)):
        reader.fail(f"key 'vector_lens' is {list(rows)}, expected lengths from 1")
    if not 0 < values["group_size"] < 1 << 31:
        reader.fail(f"key 'group_size' is {values['group_size']}, expected the number of columns of a group")
    return Layer(
        Vectors(rows[1], centroids[1], max(residual[1], 0)),
        Vectors(rows[0], centroids[0]) if found else Vectors(1, 0),
        values["group_num"], values["group_size"], outliers, values["out_features"], values["in_features"],
        values["enable_perm"], values["enable_norm"],
    )  # fmt: skip


def _pair(reader: Reader, key: str, value: Any) -> tuple[int, int]:
    if not isinstance(value, list) or len(value) != 2 or not all(type(v) is int for v in value):
        reader.fail(
            f"key {key!r} is {repr(value)[:80]}, expected two whole numbers: of outliers and of all else"
        )
    return value[0], value[1]
