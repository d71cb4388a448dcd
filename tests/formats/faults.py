"""What can be wrong with a folder of any format: each fault, at each place of a good folder where it can be made."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fewbit.formats.files import CheckedFile
from fewbit.formats.folder.safetensors import read_header, read_metadata
from fewbit.formats.folder.writer import DiskArray, safetensors_bytes
from fewbit.schemes.arrays import Array

FILE = "model.safetensors"
INDEX = "model.safetensors.index.json"
SHARDS = ("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors")
MODULE = "model.layers.0.mlp.down_proj"
EXPERTS = (
    "layers.0.ffn.experts.1.w2",
    "model.layers.0.mlp.experts.1.down_proj",
)  # where no layer is of the first name
NORM = "model.norm.weight"
CONFIGS = ("quantization_config", "quantization", "compression_config")
FLOATS = {"F32": np.float32, "F16": np.float16, "BF16": np.uint16, "F8_E4M3": np.uint8}
BITS = ("bits", "num_bits", "w_bit", "nbits", "nbits_per_codebook")
ALGORITHMS = ("quant_method", "quant_algo", "checkpoint_format", "format", "version", "packing_format", "bnb_4bit_quant_type",
              "dtype", "mode", "fmt", "type", "strategy", "qscheme", "data_type", "pack_method")  # fmt: skip
PLACE = ("tensor '", "module '")  # what a wrong setting contradicts


@dataclass(frozen=True, slots=True)
class Fault:
    """`where` tells the places of a kind apart; `named`: one of these must be in the refusal."""

    where: str
    apply: Callable[[Path], None]
    named: tuple[str, ...]


Places = Callable[[Path], Iterator[Fault]]


# ---- the container ----------------------------------------------------------------------------------------------


def header(change: Callable[[dict[str, Any]], Any]) -> Callable[[Path], None]:
    def act(folder: Path) -> None:
        raw = (folder / FILE).read_bytes()
        end = 8 + int.from_bytes(raw[:8], "little")
        entries = json.loads(raw[8:end])
        change(entries)
        text = json.dumps(entries).encode()
        (folder / FILE).write_bytes(len(text).to_bytes(8, "little") + text + raw[end:])

    return act


def lying_lengths(folder: Path) -> Iterator[Fault]:
    size = (folder / FILE).stat().st_size

    def length(value: int) -> Callable[[Path], None]:
        return lambda f: (
            (f / FILE).write_bytes(value.to_bytes(8, "little") + (f / FILE).read_bytes()[8:]) and None
        )

    for value in (0, 1, size - 7, 1 << 31, (1 << 63) - 1, (1 << 64) - 1):
        yield Fault(f"header of {value}", length(value), (FILE,))
    yield Fault("cut", lambda f: (f / FILE).write_bytes((f / FILE).read_bytes()[:-1]) and None, (FILE,))
    yield Fault("more", lambda f: (f / FILE).write_bytes((f / FILE).read_bytes() + b"x") and None, (FILE,))
    for leaf in leaves(folder):
        for begin, end in ((-1, 0), (0, 1 << 62), (1 << 62, (1 << 62) + 1), (2, 1)):
            change = header(lambda h, n=leaf, o=[begin, end]: h[n].update(data_offsets=o))
            yield Fault(f"{leaf} at {begin}", change, (leaf,))


def overlaps(folder: Path) -> Iterator[Fault]:
    for leaf in leaves(folder):

        def act(entries: dict[str, Any], leaf: str = leaf) -> None:
            begin, end = entries[leaf]["data_offsets"]
            entries[leaf]["data_offsets"] = [begin + 1, end + 1] if begin == 0 else [begin - 1, end - 1]

        yield Fault(leaf, header(act), ("overlaps", "leaves a hole"))


def overflowing_shapes(folder: Path) -> Iterator[Fault]:
    for leaf in leaves(folder):
        for shape in (
            [1 << 40, 1 << 40],
            [1 << 62, 4],
            [(1 << 63) - 1],
            [1 << 64],
            [1 << 32, 1 << 32],
            [0, 1 << 62],
        ):
            yield Fault(f"{leaf} {shape}", header(lambda h, n=leaf, s=shape: h[n].update(shape=s)), (leaf,))


def shards(folder: Path) -> dict[str, str]:
    """The one file as two with an index."""
    held, metadata = read(folder)
    names = list(held)
    parts = (names[::2], names[1::2])
    for shard, part in zip(SHARDS, parts):
        (folder / shard).write_bytes(safetensors_bytes({name: held[name] for name in part}, metadata))
    (folder / FILE).unlink()
    weight_map = {name: shard for shard, part in zip(SHARDS, parts) for name in part}
    (folder / INDEX).write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))
    return weight_map


def wrong_shards(folder: Path) -> Iterator[Fault]:
    def act(change: Callable[[Path, dict[str, str]], Any]) -> Callable[[Path], None]:
        def both(folder: Path) -> None:
            weight_map = shards(folder)
            change(folder, weight_map)
            (folder / INDEX).write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))

        return both

    def twice(folder: Path, weight_map: dict[str, str]) -> None:
        held, metadata = read(folder, SHARDS[0])
        other, _ = read(folder, SHARDS[1])
        name = next(iter(other))
        (folder / SHARDS[0]).write_bytes(safetensors_bytes({**held, name: other[name]}, metadata))

    yield Fault("no file of a shard", act(lambda f, m: (f / SHARDS[1]).unlink()), (SHARDS[1],))
    yield Fault("a tensor twice", act(twice), ("they do not belong together", "is also in"))
    for leaf in leaves(folder):
        yield Fault(f"{leaf} not in the index", act(lambda f, m, n=leaf: m.pop(n)), (leaf,))
        yield Fault(
            f"{leaf} elsewhere", act(lambda f, m, n=leaf: m.update({n: SHARDS[m[n] == SHARDS[0]]})), (leaf,)
        )


# ---- the tensors ------------------------------------------------------------------------------------------------


def missing_tensors(folder: Path) -> Iterator[Fault]:
    for leaf in leaves(folder):
        yield Fault(leaf, tensors(lambda held, n=leaf: held.pop(n)), owner(leaf))


def extra_tensors(folder: Path) -> Iterator[Fault]:
    module = owner(leaves(folder)[0])[0]
    for name in (f"{module}.mystery", f"{module}.0.deeper", "mystery"):
        for kind, array in (("I32", np.zeros(4, np.int32)), ("U8", np.zeros(4, np.uint8))):
            extra = DiskArray(kind, array)
            yield Fault(f"{name} {kind}", tensors(lambda held, n=name, d=extra: held.update({n: d})), (name,))
    held, _ = read(folder)
    for leaf in leaves(folder):
        name = leaf.replace(module, "model.norm")
        if name not in held:
            yield Fault(
                name, tensors(lambda held, n=name, o=leaf: held.update({n: held[o]})), ("model.norm",)
            )


def wrong_shapes(folder: Path) -> Iterator[Fault]:
    held, _ = read(folder)
    for leaf in leaves(folder):
        shape = held[leaf].array.shape
        changes: dict[str, Callable[[Array], Array]] = {"one more axis": lambda a: a[None]}
        for axis, extent in enumerate(shape):
            changes[f"axis {axis} twice"] = lambda a, x=axis: np.concatenate([a, a], x)
            if extent > 1:
                changes[f"axis {axis} cut"] = lambda a, x=axis: np.delete(a, -1, x)
        if len(shape) > 1 and shape[0] != shape[1] and min(shape) > 1:
            changes["turned"] = lambda a: np.swapaxes(a, 0, 1)
        for what, change in changes.items():
            yield Fault(f"{leaf} {what}", put(leaf, change), owner(leaf))


def wrong_types(folder: Path) -> Iterator[Fault]:
    """The same bytes under another type of the same width, and one that no format uses."""
    others = {
        "F32": "I32", "I32": "F32", "U32": "F32", "F16": "I16", "BF16": "I16", "U8": "F8_E5M2", "I8": "F8_E5M2", "F8_E4M3": "I8",
        "I64": "F64", "I16": "F16", "F8_E8M0": "I8",
    }  # fmt: skip
    held, _ = read(folder)
    for leaf in leaves(folder):
        yield Fault(leaf, put(leaf, lambda a: a, others[held[leaf].kind]), owner(leaf))
        yield Fault(f"{leaf} F64", put(leaf, lambda a: np.zeros(a.shape, np.float64), "F64"), owner(leaf))


def not_finite(folder: Path) -> Iterator[Fault]:
    held, _ = read(folder)
    for leaf in leaves(folder):
        kind = held[leaf].kind
        values = {
            "F32": (np.nan, -np.inf),
            "F16": (np.nan, np.inf),
            "BF16": (0x7FC0, 0xFF80),
            "F8_E4M3": (0x7F,),
            "F8_E8M0": (0xFF,),
        }
        exponents = kind == "U8" and leaf.endswith(
            ("weight_scale", "_scales")
        )  # E8M0, of formats without a type for it
        for value in (0xFF,) if exponents else values.get(kind, ()):

            def change(array: Array, value: Any = value) -> Array:
                out = array.copy()
                out.reshape(-1)[-1] = value
                return out

            yield Fault(f"{leaf} {value}", put(leaf, change), owner(leaf))


def indices(folder: Path) -> Iterator[Fault]:
    """Only formats with an index of groups have one."""
    for leaf in leaves(folder):
        if leaf.endswith("g_idx"):
            for value in (-1, 1 << 20, (1 << 31) - 1):

                def change(array: Array, value: int = value) -> Array:
                    out = array.copy()
                    out[3] = value
                    return out

                yield Fault(f"{leaf} {value}", put(leaf, change), owner(leaf))


# ---- the declaration --------------------------------------------------------------------------------------------


def declarations(folder: Path) -> Iterator[tuple[str, tuple[str, ...], dict[str, Any]]]:
    """File, path of keys and value of each object that declares the quantization, nested ones included."""

    def inside(
        file: str, path: tuple[str, ...], value: dict[str, Any]
    ) -> Iterator[tuple[str, tuple[str, ...], dict[str, Any]]]:
        yield file, path, value
        for key, inner in value.items():
            if isinstance(inner, dict):
                yield from inside(file, (*path, key), inner)

    config = json.loads((folder / "config.json").read_text())
    for key in CONFIGS:
        if key in config:
            yield from inside("config.json", (key,), config[key])
    for path in sorted(folder.glob("quant_model_description*.json")):
        yield from inside(path.name, (), json.loads(path.read_text()))


def unknown_keys(folder: Path) -> Iterator[Fault]:
    for file, path, _ in declarations(folder):
        yield Fault("/".join(path), keys(file, path, mystery=1), ("mystery",))


def replaced(names: tuple[str, ...], values: tuple[Any, ...]) -> Places:
    def places(folder: Path) -> Iterator[Fault]:
        for file, path, held in declarations(folder):
            for name in names:
                for value in values if held.get(name) is not None and held[name] != 0 else ():
                    if value != held[name]:
                        where = f"{'/'.join((*path, name))}={value!r}"
                        yield Fault(
                            where,
                            keys(file, path, **{name: value}),
                            (name, str(value), *PLACE),
                        )

    return places


def removed(names: tuple[str, ...]) -> Places:
    def places(folder: Path) -> Iterator[Fault]:
        for file, path, held in declarations(folder):
            for name in names:
                if name in held:
                    told = (name, "without a name", "for the format mlx", *PLACE)
                    yield Fault("/".join((*path, name)), keys(file, path, **{name: ...}), told)

    return places


def algorithms(folder: Path) -> Iterator[Fault]:
    """By name, and as the description of each tensor that msModelSlim writes."""
    yield from replaced(ALGORITHMS, ("mystery", 7, ["x"]))(folder)
    for file, path, held in declarations(folder):
        for name in held if file.startswith("quant_model_description") else ():
            if name.startswith(MODULE):
                yield Fault(name, keys(file, path, **{name: "W9A9"}), (name, "W9A9"))


# ---- helpers ----------------------------------------------------------------------------------------------------


def leaves(folder: Path) -> list[str]:
    """Tensors of one quantized module."""
    names = list(read(folder)[0])
    stacked = [n for n in names if "layers.0.mlp.experts.down_proj" in n]
    return [n for n in names if n.startswith(tuple(f"{m}." for m in (MODULE, *EXPERTS)))] or stacked


def owner(leaf: str) -> tuple[str, ...]:
    """The module, as errors may name it; experts stacked in one tensor have one each."""
    module = next((m for m in (MODULE, *EXPERTS) if leaf.startswith(m)), "model.layers.0.mlp.experts")
    return (module,)


def read(folder: Path, name: str = FILE) -> tuple[dict[str, DiskArray], dict[str, str]]:
    file = CheckedFile(folder / name)
    try:
        held = {n: DiskArray(t.kind, t.whole().reshape(t.shape).copy()) for n, t in read_header(file).items()}
        return held, read_metadata(file)
    finally:
        file.close()


def tensors(change: Callable[[dict[str, DiskArray]], Any]) -> Callable[[Path], None]:
    def act(folder: Path) -> None:
        held, metadata = read(folder)
        change(held)
        (folder / FILE).write_bytes(safetensors_bytes(held, metadata))

    return act


def put(name: str, change: Callable[[Array], Array], kind: str = "") -> Callable[[Path], None]:
    def act(held: dict[str, DiskArray]) -> None:
        held[name] = DiskArray(kind or held[name].kind, np.array(change(held[name].array), order="C"))

    return tensors(act)


def keys(file: str, path: tuple[str, ...], **changes: Any) -> Callable[[Path], None]:
    def act(folder: Path) -> None:
        whole = json.loads((folder / file).read_text())
        value = whole
        for key in path:
            value = value[key]
        value.update(changes)
        for key in [key for key, changed in changes.items() if changed is ...]:
            del value[key]
        (folder / file).write_text(json.dumps(whole))

    return act


KINDS: dict[str, Places] = {
    "lengths that lie": lying_lengths,
    "overlapping tensors": overlaps,
    "overflowing shapes": overflowing_shapes,
    "wrong shards": wrong_shards,
    "a missing tensor": missing_tensors,
    "an extra tensor": extra_tensors,
    "a wrong shape": wrong_shapes,
    "a wrong type": wrong_types,
    "a scale that is not finite": not_finite,
    "an index out of range": indices,
    "an unknown key": unknown_keys,
    "an unknown algorithm": algorithms,
    "an unknown bit width": replaced(BITS, (0, -4, 9, 17, 1 << 40, 2.5, "4")),
    "a group that does not divide K": replaced(("group_size", "in_group_size"), (48, 7, 1 << 40)),
    "a group that contradicts the tensors": replaced(("group_size", "in_group_size"), (64, 128)),
    "blocks that contradict the tensors": replaced(("weight_block_size",), ([16, 16], [48], [0, 48], [48, -48], "x", 48)),
    "a group that is none": replaced(("group_size", "in_group_size"), (0, -7, 1.5, "x", True)),
    "an absent key": removed(("bits", "num_bits", "quant_method", "quant_algo", "dtype", "nbits", "nbits_per_codebook")),
}  # fmt: skip
