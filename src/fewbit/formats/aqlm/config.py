"""AQLM's configuration: the sizes of tiles and codebooks, and the parameters that stay plain."""

from __future__ import annotations

from dataclasses import dataclass

from fewbit.formats.folder.config import Reader
from fewbit.formats.folder.files import FolderFiles
from fewbit.formats.folder.keys import Key

MAX_BITS = 16
KEYS: dict[str, Key] = {
    "quant_method": Key("string", required=True, only=("aqlm",)),
    "in_group_size": Key("count", default=8),
    "out_group_size": Key("count", default=1),
    "num_codebooks": Key("count", default=1),
    "nbits_per_codebook": Key("count", default=16, only=tuple(range(1, MAX_BITS + 1))),
    "linear_weights_not_to_quantize": Key("strings", default=()),
}


@dataclass(frozen=True, slots=True)
class Settings:
    """`books` codebooks of 2^bits tiles of `rows` x `run` values."""

    books: int
    bits: int
    run: int
    rows: int = 1

    def __str__(self) -> str:
        return f"{self.books} codebooks of {self.bits} bits, tiles of {self.rows} x {self.run}"


@dataclass(frozen=True, slots=True)
class AqlmConfig:
    """`plain`: full names of parameters that are not quantized."""

    where: str
    settings: Settings
    plain: frozenset[str] = frozenset()


def read_settings(files: FolderFiles) -> AqlmConfig:
    declaration = files.declarations["quantization_config"]
    values = Reader(declaration.where, declaration.values).all(KEYS, (), "the format aqlm")
    settings = Settings(
        values["num_codebooks"],
        values["nbits_per_codebook"],
        values["in_group_size"],
        values["out_group_size"],
    )
    return AqlmConfig(declaration.where, settings, frozenset(values["linear_weights_not_to_quantize"]))
