"""Models of the types that no kernel reads run on the reference backend, as their dequantized selves."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fewbit.formats import open_checkpoint
from fewbit.formats.gguf.types import TYPES, GgufType
from fewbit.kernels.backend import open_backend
from fewbit.loader import prepare
from fewbit.platforms.x86.detect import detect
from fewbit.spec.refusal import RefusedError
from tests.formats.gguf.fixture import RawTensor, tiny_gguf_parts, write_gguf
from tests.formats.gguf.test_blocks import SCALES, finite_blocks
from tests.models.tiny import ArrayCheckpoint, Driver, runner_of

WIDE = {"hidden_size": 256, "intermediate_size": 256, "head_dim": 64}
CHOSEN = [
    t for t in TYPES.values() if t.name in ("IQ1_M", "IQ2_XS", "IQ3_S", "IQ4_NL", "IQ4_XS", "TQ2_0", "Q1_0")
]


def written(folder: Path, kind: GgufType) -> Path:
    """Random blocks with scales of a size that keeps activations near one."""
    metadata, tensors = tiny_gguf_parts("f32", **WIDE)
    for name, tensor in tensors.items():
        if len(tensor.shape) == 2:  # type: ignore[union-attr]
            n, k = tensor.shape  # type: ignore[union-attr]
            blocks = finite_blocks(kind, n * k // kind.block)
            for at in SCALES[kind.name]:
                blocks[:, at : at + 2] = np.frombuffer(np.float16(2e-4).tobytes(), np.uint8)
            tensors[name] = RawTensor(kind.id, (k, n), blocks.tobytes())
    return write_gguf(folder / "m.gguf", metadata, tensors)


@pytest.mark.parametrize("kind", CHOSEN, ids=lambda t: t.name)
def test_a_model_runs_as_its_dequantized_self(tmp_path: Path, kind: GgufType) -> None:
    checkpoint, backend = open_checkpoint(written(tmp_path, kind)), open_backend("reference", detect())
    held = {name: checkpoint.read(name) for name in checkpoint.tensors}
    plain = ArrayCheckpoint(checkpoint.model_type, dict(checkpoint.config), held).dequantized()
    ours, theirs = (Driver(runner_of(c, backend)).logits({0: list(range(8))})[0] for c in (checkpoint, plain))
    np.testing.assert_allclose(ours, theirs, atol=1e-4 * np.abs(theirs).max())


def test_the_cpu_names_the_type_it_lacks(tmp_path: Path) -> None:
    checkpoint = open_checkpoint(written(tmp_path, CHOSEN[0]))
    with pytest.raises(RefusedError, match=r"q_proj.weight.*scheme .* --allow-reference"):
        prepare(checkpoint, open_backend("cpu", detect()).selector)
