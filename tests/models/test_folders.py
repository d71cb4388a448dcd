"""From disk: folders that transformers saved, and one set of weights written as a folder and as GGUF."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fewbit.formats import open_checkpoint
from tests.formats.gguf.fixture import tiny_gguf
from tests.formats.plain.fixture import tiny_folder
from tests.models.families import MEMBERS, assert_close, sequences, tiny_model
from tests.models.tiny import Driver, checkpoint_of, runner_of

YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32}


def logits(checkpoint: Any, backend: Any) -> list[np.ndarray]:
    return Driver(runner_of(checkpoint, backend)).logits(dict(enumerate(sequences(160))))


@pytest.mark.parametrize("member", MEMBERS)
def test_a_saved_folder_is_the_model(member: str, tmp_path: Path, backends: Any) -> None:
    """Same bits as from memory, which test_families.py holds to transformers; the config keys are those that it writes."""
    model = tiny_model(member)
    model.save_pretrained(tmp_path)
    from_disk = logits(open_checkpoint(tmp_path), backends("cpu"))
    from_memory = logits(checkpoint_of(model), backends("cpu"))
    for a, b in zip(from_disk, from_memory, strict=True):
        np.testing.assert_array_equal(a.view(np.uint32), b.view(np.uint32))


@pytest.mark.parametrize("scheme", ["f32", "f16", "bf16"])
@pytest.mark.parametrize(
    ("architecture", "changes"),
    [
        ("llama", {}),
        ("llama", {"tie_word_embeddings": True, "attention_bias": True}),
        ("llama", {"num_key_value_heads": 4, "rope_scaling": {"rope_type": "linear", "factor": 2.0}}),
        ("qwen2", {"rope_scaling": YARN}),
        ("qwen3", {"head_dim": 32}),
    ],
)
def test_folder_and_gguf_agree_to_the_bit(
    scheme: str, architecture: str, changes: dict[str, Any], tmp_path: Path, backends: Any
) -> None:
    """Rows of q and k lie in another order in a llama GGUF, and every key has another name."""
    folder = tiny_folder(tmp_path / "folder", scheme, architecture, **changes)
    gguf = tiny_gguf(tmp_path / "model.gguf", scheme, architecture, **changes)
    pair = [logits(open_checkpoint(path), backends("cpu")) for path in (folder, gguf)]
    for a, b in zip(*pair, strict=True):
        if scheme == "f32":
            np.testing.assert_array_equal(a.view(np.uint32), b.view(np.uint32))
        else:  # a folder keeps norms and biases in 16 bits, a GGUF in f32
            assert_close(a, b, {"f16": 5e-3, "bf16": 3e-2}[scheme])
