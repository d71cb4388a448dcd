"""Text models inside wrappers for images and sound: canonical names, the same logits on text, and no tower left out in silence."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers

from fewbit.loader import load_model, prepare
from fewbit.loader.open import open_model
from fewbit.models.wrappers import TEXT_TYPES, find_text
from fewbit.spec.dtype import F32
from fewbit.spec.refusal import CheckpointError
from tests.formats.altered import drop, tensors
from tests.models.families import BASE, assert_close, expected_logits, sequences
from tests.models.tiny import Driver, runner_of

VISION = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 1, "num_attention_heads": 2, "image_size": 28,
          "patch_size": 14}  # fmt: skip
CLIP = {"model_type": "clip_vision_model", **VISION}
QWEN_VISION = {"depth": 1, "hidden_size": 32, "num_heads": 2, "intermediate_size": 48, "out_hidden_size": 64, "embed_dim": 32,
               "patch_size": 14}  # fmt: skip
QWEN3_VISION = {**QWEN_VISION, "deepstack_visual_indexes": [0], "num_position_embeddings": 4}
SECTIONS = {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [2, 3, 3]}
AUDIO = {"d_model": 32, "encoder_layers": 1, "encoder_attention_heads": 2, "encoder_ffn_dim": 48}
VOX = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 128}
TOWER, SOUND = {"vision tower"}, {"audio tower", "projector"}
BOTH = {"vision tower", "projector"}

# class, text config, further keys, components that are not served
CASES: dict[str, tuple[str, dict[str, Any], dict[str, Any], set[str]]] = {
    "llava": ("Llava", {"model_type": "llama"}, {"vision_config": CLIP}, BOTH),
    "llava_next": (
        "LlavaNext",
        {"model_type": "mistral", "sliding_window": 7},
        {"vision_config": CLIP, "image_grid_pinpoints": [[28, 28]]},
        BOTH,
    ),
    "mistral3": (
        "Mistral3",
        {"model_type": "mistral", "head_dim": 16},
        {"vision_config": {"model_type": "pixtral", **VISION}, "tie_word_embeddings": False},
        BOTH,
    ),
    "internvl": (
        "InternVL",
        {"model_type": "qwen2"},
        {"vision_config": {**VISION, "image_size": [28, 28], "patch_size": [14, 14]}, "tie_word_embeddings": True},
        BOTH,
    ),
    "qwen2_vl": ("Qwen2VL", {"rope_parameters": SECTIONS}, {"vision_config": QWEN_VISION}, TOWER),
    "qwen2_5_vl": (
        "Qwen2_5_VL",
        {"rope_parameters": SECTIONS},
        {"vision_config": {**QWEN_VISION, "fullatt_block_indexes": [0]}, "tie_word_embeddings": True},
        TOWER,
    ),
    "qwen3_vl": (
        "Qwen3VL",
        {"head_dim": 16, "rope_parameters": {**SECTIONS, "mrope_interleaved": True}},
        {"vision_config": QWEN3_VISION},
        TOWER,
    ),
    "qwen2_audio": ("Qwen2Audio", {"model_type": "qwen2"}, {"audio_config": AUDIO}, SOUND),
    "voxtral": ("Voxtral", {"model_type": "llama"}, {"audio_config": VOX}, SOUND),
    "idefics3": ("Idefics3", {"model_type": "llama"}, {"vision_config": VISION}, BOTH),
}  # fmt: skip


def save(case: str, folder: Path) -> Any:
    name, text, more, _ = CASES[case]
    torch.manual_seed(3)
    config = getattr(transformers, f"{name}Config")(text_config={**BASE, **text}, **more)
    model = getattr(transformers, f"{name}ForConditionalGeneration")(config).float().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 2:
                parameter.copy_(torch.randn_like(parameter) * parameter.shape[1] ** -0.5)
    model.save_pretrained(folder)
    return model


@pytest.mark.parametrize("case", CASES)
def test_text_through_a_wrapper(case: str, tmp_path: Path, backends: Any) -> None:
    model = save(case, tmp_path)
    checkpoint = open_model(tmp_path)
    assert checkpoint.wrapper == case
    towers = {name: info for name, info in checkpoint.tensors.items() if info.component}
    assert {info.component for info in towers.values()} == CASES[case][3]
    driver = Driver(runner_of(checkpoint, backends("reference"), F32))
    for index, tokens in enumerate(sequences(160)[:2]):
        assert_close(driver.logits({index: tokens})[0], expected_logits(model, tokens))
    report = load_model(checkpoint, backends("reference")).report
    assert report.explained.keys() == towers.keys()
    assert all(
        why.endswith("not served by this family, which takes text alone") for why in report.explained.values()
    )


def respell(prefixes: dict[str, str]) -> Any:
    """Tensors under the names that the class has in memory, or older ones."""

    def change(held: dict[str, Any]) -> None:
        for name in list(held):
            for old, new in prefixes.items():
                if name.startswith(old):
                    held[new + name[len(old) :]] = held.pop(name)
                    break

    return tensors(change)


@pytest.mark.parametrize(
    ("case", "prefixes"),
    [
        ("llava", {"language_model.model.": "model.language_model.", "language_model.lm_head.": "lm_head.",
                   "vision_tower.": "model.vision_tower.", "multi_modal_projector.": "model.multi_modal_projector."}),
        ("qwen2_vl", {"model.": "model.language_model.", "visual.": "model.visual."}),
        ("qwen2_vl", {"model.": "thinker.model.", "lm_head.": "thinker.lm_head.", "visual.": "thinker.visual."}),
        ("qwen3_vl", {"model.language_model.": "language_model.model.", "lm_head.": "language_model.lm_head."}),
    ],
    ids=str,
)  # fmt: skip
def test_every_spelling_gives_the_same_model(
    case: str, prefixes: dict[str, str], tmp_path: Path, backends: Any
) -> None:
    save(case, tmp_path)
    tokens = {0: sequences(160)[1]}
    before = open_model(tmp_path)
    expected = Driver(runner_of(before, backends("reference"))).logits(tokens)[0]
    respell(prefixes)(tmp_path)
    checkpoint = open_model(tmp_path)
    served = {name for name, info in checkpoint.tensors.items() if not info.component}
    assert served == {name for name, info in before.tensors.items() if not info.component}
    np.testing.assert_array_equal(
        Driver(runner_of(checkpoint, backends("reference"))).logits(tokens)[0], expected
    )


def test_the_older_flat_config_is_read(tmp_path: Path, backends: Any) -> None:
    model = save("qwen2_vl", tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    text = config.pop("text_config")
    text["rope_scaling"] = {"type": "mrope", "mrope_section": text.pop("rope_parameters")["mrope_section"]}
    kept = {k: v for k, v in text.items() if k != "model_type"} | {"rope_theta": 10000.0}
    (tmp_path / "config.json").write_text(json.dumps({**kept, **config}))
    driver = Driver(runner_of(open_model(tmp_path), backends("reference"), F32))
    tokens = sequences(160)[1]
    assert_close(driver.logits({0: tokens})[0], expected_logits(model, tokens))


@pytest.mark.parametrize("kind", [name for name in TEXT_TYPES if name not in ("qwen2_vl", "qwen2_5_vl")])
def test_what_a_nested_config_leaves_out_is_the_default_of_its_class(kind: str) -> None:
    own = transformers.AutoConfig.for_model(kind)
    wrapper = {"model_type": "llava", "text_config": {"model_type": kind}}
    found = find_text(wrapper, ["lm_head.weight"]).config
    served, defaults = TEXT_TYPES[kind]
    assert found == {"model_type": served, **defaults, "tie_word_embeddings": False}
    for key, value in defaults.items():
        theirs = own.rope_parameters["rope_theta"] if key == "rope_theta" else getattr(own, key)
        assert value == theirs, key


def test_a_missing_head_is_not_taken_for_a_tied_one(tmp_path: Path, backends: Any) -> None:
    save("llava", tmp_path)
    drop("language_model.lm_head.weight")(tmp_path)
    with pytest.raises(CheckpointError, match=r"config demands tensors that are missing: lm_head.weight"):
        prepare(open_model(tmp_path), backends("reference").selector)


def test_a_wrapper_without_its_text_config_is_refused(tmp_path: Path) -> None:
    save("llava", tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | {"text_config": "llama"}))
    with pytest.raises(
        CheckpointError, match=r"'llava' needs the object 'text_config'.*found text_config = 'llama'"
    ):
        open_model(tmp_path)


def test_a_text_model_that_no_family_serves_is_refused_where_it_stands(tmp_path: Path) -> None:
    save("llava", tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    config["text_config"]["model_type"] = "gemma3_text"
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(
        CheckpointError, match=r"config.json: text_config: model type 'gemma3_text' is not supported"
    ):
        open_model(tmp_path)


def test_one_tensor_under_two_spellings_is_refused(tmp_path: Path) -> None:
    save("llava", tmp_path)
    name = "language_model.model.norm.weight"
    tensors(lambda held: held.update({"model.language_model.norm.weight": held[name]}))(tmp_path)
    with pytest.raises(CheckpointError, match=r"gives the tensor 'model.norm.weight' a second time"):
        open_model(tmp_path)
