"""A tiny folder of any format made the text model of a wrapper: its tensors behind a prefix, its config nested, a tower beside it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fewbit.formats.folder.writer import DiskArray
from tests.formats.edits import renamed, tensors

INSIDE = {"model.": "language_model.model.", "lm_head.": "language_model.lm_head."}


def wrap(
    folder: Path,
    kind: str = "llava",
    prefixes: Mapping[str, str] = INSIDE,
    tower: Mapping[str, DiskArray] | None = None,
) -> Path:
    """`prefixes`: those of the text model to those in the wrapper. The declaration of a quantization stays at the top."""
    if prefixes:
        renamed(prefixes)(folder)
    if tower:
        tensors(lambda held: held.update(tower))(folder)
    text: dict[str, Any] = json.loads((folder / "config.json").read_text())
    kept = {key: text.pop(key) for key in list(text) if key in ("quantization_config", "compression_config")}
    (folder / "config.json").write_text(json.dumps({"model_type": kind, "text_config": text, **kept}))
    return folder
