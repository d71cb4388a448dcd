"""What says that a folder is of QuIP#: `quip_params` of config.json; of QuIP-for-all, a quantization_config."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from fewbit.formats.folder.config import Reader
from fewbit.formats.folder.files import FolderFiles
from fewbit.formats.folder.keys import Key
from fewbit.schemes.lattice.scheme import E8P12, E8P12RVQ3B, E8P12RVQ4B
from fewbit.spec.scheme import Scheme

PARAMS, METHOD = "quip_params", "QUiP"


@dataclass(frozen=True, slots=True)
class Codebook:
    """`number` and `version` as QuIP# stores them; `divisor`: what residuals are divided by where the config is silent."""

    scheme: Scheme
    number: int
    version: int
    divisor: float = 0


CODEBOOKS = {
    "E8P12": Codebook(E8P12, 7, 1),
    "E8P12RVQ4B": Codebook(E8P12RVQ4B, 17, 1, 3.45),
    "E8P12RVQ3B": Codebook(E8P12RVQ3B, 18, 0, 2.04),
}
_CODEBOOK = Key("string", required=True, only=tuple(CODEBOOKS))
_KEYS: dict[str, Key] = {
    "codebook": _CODEBOOK,
    "codebook_version": Key("whole", default=0),
    "codesz": Key("whole", required=True, only=(8,)),
    "idx_dtype": Key("string", required=True, only=("torch.int64",)),
    "pack_out": Key("bool", default=False, only=(False,)),
    "lora_rank": Key("whole", required=True, only=(0,)),
    "rescale_WH": Key("bool", required=True),
    "resid_scale_override": Key("number", default=-1),
    "outlier_channel_split": Key("bool", default=False, only=(False,)),
    "model_version": Key("whole", default=1, only=(1,)),
}
_HARMLESS = frozenset({"packsz", "train_mode", "grad_ckpt"})  # the shapes say how much is packed
_FOR_ALL: dict[str, Key] = {
    "quant_method": Key("string", required=True, only=(METHOD,)),
    "codebook": _CODEBOOK,
    "codesz": Key("whole", default=8, only=(8,)),
    "idx_dtype": Key("string"),
    "merge_suv": Key("bool", default=False, only=(False,)),  # which modules then lack SU and SV, nothing says
    "per_channel": Key("bool", default=False, only=(False,)),
    "opt_resid_scale": Key("positive"),
    "modules_to_not_convert": Key("strings", default=()),
}
_FOR_ALL_HARMLESS = frozenset(
    {"rescale_WH", "use_rand"}
)  # in SU already; stored beside the module, or refused there


@dataclass(frozen=True, slots=True)
class Settings:
    """`residual` multiplies what residual codes stand for. `tiled`: as QuIP# packs, else as QuIP-for-all does. `rescaled`:
    scaleWH is stored. `model`: the model's config, for the sizes of fused modules."""

    where: str
    name: str
    residual: float = 0
    tiled: bool = True
    rescaled: bool = False
    plain: tuple[str, ...] = ()
    model: Reader = field(default_factory=lambda: Reader("", {}))

    @property
    def codebook(self) -> Codebook:
        return CODEBOOKS[self.name]

    def plain_by(self, module: str) -> str:
        """The entry of modules_to_not_convert that is the module's name or some components of it, "" for none."""
        return next((entry for entry in self.plain if entry and f".{entry}." in f".{module}."), "")

    def fused(self, module: str) -> tuple[int, ...]:
        """Rows of the projections that QuIP# quantized as one, () for any other module."""
        last = module.rpartition(".")[2]
        if not self.tiled or last not in ("qkv_proj", "upgate_proj"):
            return ()

        def size(key: str, default: int | None = None) -> int:
            return int(self.model.get(key, Key("count", required=default is None, default=default)))

        if last == "upgate_proj":
            return (size("intermediate_size"),) * 2
        heads = size("num_attention_heads")
        head = size("head_dim", max(size("hidden_size") // heads, 1))
        keys = size("num_key_value_heads", heads) * head
        return heads * head, keys, keys


def read_settings(files: FolderFiles) -> Settings:
    model = Reader(files.config_where, files.config)
    if PARAMS in files.declarations:
        return _quip_sharp(Reader(files.declarations[PARAMS].where, files.declarations[PARAMS].values), model)
    declaration = files.declarations["quantization_config"]
    values = Reader(declaration.where, declaration.values).all(_FOR_ALL, _FOR_ALL_HARMLESS, "the format quip")
    book = CODEBOOKS[values["codebook"]]
    residual = values["opt_resid_scale"] or _over(book.divisor)
    return Settings(
        declaration.where, values["codebook"], residual, tiled=False, plain=tuple(values["modules_to_not_convert"]), model=model
    )  # fmt: skip


def _quip_sharp(reader: Reader, model: Reader) -> Settings:
    values: dict[str, Any] = reader.all(_KEYS, _HARMLESS, "the format quip")
    name, book = values["codebook"], CODEBOOKS[values["codebook"]]
    if values["codebook_version"] != book.version:
        reader.fail(
            f"key 'codebook_version' is {values['codebook_version']}, expected {book.version} for the codebook {name}, since others "
            "number its points in another way; fetch the model's current files"
        )
    said = values["resid_scale_override"]
    residual = _over(said if said > 0 else book.divisor)
    return Settings(reader.where, name, residual, rescaled=values["rescale_WH"], model=model)


def _over(divisor: float) -> float:
    return 1 / divisor if divisor else 0.0
