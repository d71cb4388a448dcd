"""Every format inside a wrapper: the same tensors in the same schemes under the same canonical names, and the same rules."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from fewbit.loader.open import open_model
from tests.bugs.guard import guarded
from tests.formats.modelslim.fixture import tiny_modelslim
from tests.formats.test_faults import FOLDERS
from tests.formats.wrapped import INSIDE, wrap

# prefixes, and whether the declaration stands in the text model's config
WRAPPED: dict[str, tuple[Mapping[str, str], bool]] = {
    "language_model.model.": (INSIDE, False),
    "model.language_model.": ({"model.": "model.language_model."}, True),
    "thinker.model.": ({"model.": "thinker.model.", "lm_head.": "thinker.lm_head."}, False),
}
FORMS = [form for form in FOLDERS if form != "deepseek-v4"]  # whose names have no prefix
DESCRIPTION = "quant_model_description.json"


def content(folder: Path) -> dict[str, Any]:
    """By canonical name: the scheme, the layer's inputs and the bytes of each part; beside tensors; why what is plain is so."""
    checkpoint: Any = open_model(folder)
    try:
        found: dict[str, Any] = {}
        for name, info in checkpoint.tensors.items():
            parts = {role: part.tobytes() for role, part in checkpoint.read(name).parts.items()}
            found[name] = info.scheme.name, str(info.layer), parts
        for name in checkpoint.auxiliary:
            found[f"beside {name}"] = checkpoint.read_auxiliary(name).tobytes()
        return found | {f"plain {name}": rule for name, rule in checkpoint.unquantized.items()}
    finally:
        checkpoint.close()


def nest(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    for key in ("quantization_config", "compression_config"):
        if key in config:
            config["text_config"][key] = config.pop(key)
    (folder / "config.json").write_text(json.dumps(config))


def described(folder: Path, prefixes: Mapping[str, str]) -> None:
    """The description of single tensors, in the names of the files."""
    path = folder / DESCRIPTION
    if path.exists():
        kinds = json.loads(path.read_text())
        for name in list(kinds):
            old = next((p for p in prefixes if name.startswith(p)), None)
            if old is not None:
                kinds[prefixes[old] + name[len(old) :]] = kinds.pop(name)
        path.write_text(json.dumps(kinds))


@pytest.mark.parametrize("where", WRAPPED)
@pytest.mark.parametrize("form", FORMS)
@guarded("fewbit.formats.folder.names:Names.canonical", lambda self, name: name)
def test_a_wrapper_changes_nothing(tmp_path: Path, form: str, where: str) -> None:
    folder = tmp_path / "m"
    folder.mkdir()
    FOLDERS[form](folder, num_hidden_layers=1)
    bare = content(folder)
    prefixes, inside = WRAPPED[where]
    wrap(folder, "llava", prefixes)
    described(folder, prefixes)
    if inside:
        nest(folder)
    wrapped = content(folder)
    assert wrapped.keys() == bare.keys()
    assert [name for name in bare if wrapped[name] != bare[name]] == []


@guarded("fewbit.formats.folder.names:Names.spellings", lambda self, module: (), "does not know the tensor")
def test_a_description_in_the_names_of_the_text_class(tmp_path: Path) -> None:
    """The files have a prefix that the description lacks, and the other way round."""
    bare = content(tiny_modelslim(tmp_path / "m"))
    wrap(tmp_path / "m")
    assert content(tmp_path / "m").keys() == bare.keys()
    tiny_modelslim(tmp_path / "n")
    wrap(tmp_path / "n", prefixes={})
    described(tmp_path / "n", INSIDE)
    assert content(tmp_path / "n").keys() == bare.keys()
