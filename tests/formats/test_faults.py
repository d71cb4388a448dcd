"""Every kind of fault in every format: refused in one sentence that names the file, and the tensor or the key."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from fewbit.formats import open_checkpoint
from fewbit.formats.gptq.config import Settings
from fewbit.loader.report import check_headers
from fewbit.models import FAMILIES, family
from fewbit.schemes.lattice.scheme import E8P12RVQ3B, E8P12RVQ4B
from fewbit.spec.dtype import E2M1, E4M3, E8M0, F32, I4
from fewbit.spec.granularity import CHANNEL, block, group
from fewbit.spec.refusal import CheckpointError
from fewbit.spec.scheme import Scheme
from tests.formats.compressed_tensors.fixture import tiny_compressed
from tests.formats.faults.declaration import declarations
from tests.formats.faults.kinds import KINDS
from tests.formats.gptq.fixture import tiny_gptq
from tests.formats.modelopt.fixture import tiny_modelopt
from tests.formats.plain.fixture import tiny_folder
from tests.formats.quark.fixture import tiny_quark
from tests.formats.quip.fixture import tiny_quip
from tests.formats.w8a8.fixture import tiny_w8a8
from tests.fuzz.targets import WRITERS

NVFP4 = Scheme(E2M1, group(16), E4M3, global_scale=F32)
MXFP4 = Scheme(E2M1, group(32), E8M0)
FOLDERS: dict[str, Callable[..., Path]] = WRITERS | {
    "plain": tiny_folder,
    "gptq, ordered": partial(tiny_gptq, settings=Settings(4, 32, True, desc_act=True)),
    "compressed-tensors, ordered": partial(
        tiny_compressed, scheme=Scheme(I4, group(32), F32, group_index=True)
    ),
    "compressed-tensors, bytes": partial(tiny_compressed, scheme=Scheme(I4, CHANNEL, F32), in_bytes=True),
    "compressed-tensors, FP8": partial(tiny_compressed, scheme=Scheme(E4M3, block(32, 32), F32)),
    "compressed-tensors, NVFP4": partial(tiny_compressed, scheme=NVFP4),
    "compressed-tensors, MXFP4": partial(tiny_compressed, scheme=MXFP4),
    "modelopt, FP8": partial(tiny_modelopt, scheme=Scheme(E4M3, CHANNEL, F32)),
    "quark, MXFP4": partial(tiny_quark, scheme=MXFP4),
    "quip, 3 bits": partial(tiny_quip, scheme=E8P12RVQ3B),
    "quip, in order": partial(tiny_quip, scheme=E8P12RVQ4B, in_order=True),
    "w8a8, blocks": partial(tiny_w8a8, method="blockwise_int8"),
}

# (format, kind, place): why it is no fault there. Each must be met.
NOTES = r"unpack_view_dtype|compute_dtype|encoded_state_dict|stores_quant_config|optimize|round_zero"
OFF = r"channel_wise|view_as_float|quant_scale|quant_zero|offload_meta"
WRITTEN_BY = "says which program wrote the folder"
ONE_NUMBER = "a single number in any shape"
UNSERVED = "no model takes it yet, and what none takes is told where one does"
SOUND: list[tuple[str, str, str, str]] = [
    ("modelopt", "a wrong shape", "weight_scale_2 one more axis", ONE_NUMBER),
    ("fp_quant", "a missing tensor", "backward_hadamard_matrix", "of gradients, used by no one here"),
    ("fp_quant", "a scale that is not finite", "backward_hadamard_matrix", "of gradients, used by no one here"),
    ("w4afp8", "a wrong shape", "input_scale one more axis", ONE_NUMBER),
    ("bitnet", "a wrong shape", "weight_scale one more axis", ONE_NUMBER),
    ("hqq", "a wrong shape", "(nbits|group_size|axis) one more axis", ONE_NUMBER),
    ("bitsandbytes", "a wrong shape", "quant_state.bitsandbytes__nf4 one more axis", "JSON in any shape"),
    ("hqq", "a missing tensor", NOTES, "says how hqq computes, not what is stored"),
    ("hqq", "a wrong shape", NOTES, "says how hqq computes, not what is stored"),
    ("hqq", "a wrong type", NOTES, "says how hqq computes, not what is stored"),
    ("hqq", "a missing tensor", OFF, "off where absent"),
    ("hqq", "a wrong shape", f"({OFF}) one more axis", ONE_NUMBER),
    ("mxfp4", "a missing tensor", "down_proj_bias", "a bias is no part of the quantization; " + UNSERVED),
    ("mxfp4", "an extra tensor", "model.norm.down_proj_bias", UNSERVED),
    ("stacked", "an extra tensor", "model.norm.down_proj_weight_scale_2", UNSERVED),
    *((form, kind, "/producer", WRITTEN_BY) for form in ("modelopt", "modelopt, FP8", "stacked") for kind in ("an unknown key", "an unknown algorithm")),
    *((form, "an unknown algorithm", "quantization_config/version='mystery'", WRITTEN_BY) for form in ("quark", "quark, MXFP4")),
    ("quip, in order", "a missing tensor", "down_proj.weight", "a placeholder that says the type"),
    ("quip, in order", "a scale that is not finite", "down_proj.weight", "a placeholder that says the type"),
    ("qqq", "an absent key", "/bits", "the format has no other"),
    ("compressed-tensors, bytes", "an absent key", "num_bits", "8 is the format's default, and these codes lie in bytes"),
    ("compressed-tensors, FP8", "an absent key", "num_bits", "8 is the format's default"),
]  # fmt: skip


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """One good folder of each format."""
    made: dict[str, Path] = {}

    def get(form: str) -> Path:
        if form not in made:
            folder = tmp_path_factory.mktemp("good") / "m"
            folder.mkdir()
            made[form] = FOLDERS[form](folder, num_hidden_layers=1)
        return made[form]

    return get


def read_all(folder: Path) -> None:
    """What loading does before a kernel sees anything."""
    checkpoint = open_checkpoint(folder)
    try:
        if checkpoint.model_type in FAMILIES:
            module = family(checkpoint.model_type)
            config = module.parse(checkpoint.model_type, checkpoint.config, checkpoint.tensors.keys())
            check_headers(module.describe(config), checkpoint)
        for name in checkpoint.tensors:
            checkpoint.read(name)
        for name in checkpoint.auxiliary:  # type: ignore[attr-defined]
            checkpoint.read_auxiliary(name)
    finally:
        checkpoint.close()


@pytest.mark.parametrize("form", FOLDERS)
def test_the_folder_is_good(good: Callable[[str], Path], form: str) -> None:
    read_all(good(form))
    if form not in ("plain", "stacked"):
        assert list(declarations(good(form)))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("form", FOLDERS)
def test_refused(good: Callable[[str], Path], tmp_path: Path, form: str, kind: str) -> None:
    sound = {place: re.compile(place) for f, k, place, _ in SOUND if (f, k) == (form, kind)}
    met: set[str] = set()
    wrong: list[str] = []
    folder = tmp_path / "m"
    for fault in KINDS[kind](good(form)):
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(good(form), folder)
        fault.apply(folder)
        excused = {place for place, pattern in sound.items() if pattern.search(fault.where)}
        try:
            read_all(folder)
        except CheckpointError as refusal:
            text = str(refusal)
            if (
                str(folder) not in text
                or "\n" in text
                or len(text) > 700
                or not any(n in text for n in fault.named)
            ):
                wrong.append(f"{fault.where}: says {text}")
        else:
            met |= excused
            if not excused:
                wrong.append(f"{fault.where}: is taken")
    assert not wrong, "\n".join(wrong)
    assert met == sound.keys()


@pytest.mark.parametrize(
    ("form", "kind"),
    [
        ("gptq", "a missing tensor"),
        ("compressed-tensors", "wrong shards"),
        ("awq", "a group that does not divide K"),
        ("fp8", "overflowing shapes"),
        ("hqq", "an unknown bit width"),
    ],
)
def test_commands_end_with_that_sentence(
    good: Callable[[str], Path],
    tmp_path: Path,
    fewbit_cli: Callable[..., CompletedProcess[str]],
    form: str,
    kind: str,
) -> None:
    folder = shutil.copytree(good(form), tmp_path / "m")
    fault = next(iter(KINDS[kind](folder)))
    fault.apply(folder)
    done = fewbit_cli("inspect", folder)
    assert done.returncode == 1 and done.stdout == ""
    assert done.stderr.startswith("fewbit: ") and done.stderr.count("\n") == 1 and str(folder) in done.stderr
    assert any(name in done.stderr for name in fault.named)


def test_every_kind_is_met(good: Callable[[str], Path]) -> None:
    """A kind whose places vanished would pass unseen."""
    lacking = {
        kind: {form for form in FOLDERS if not any(True for _ in places(good(form)))}
        for kind, places in KINDS.items()
    }
    by_tensors = [kind for kind in list(KINDS)[:9] if lacking[kind]]
    assert by_tensors == []
    assert lacking["an unknown key"] == lacking["an unknown algorithm"] == {"plain"}
    at_least = {
        "an index out of range": 3, "an unknown bit width": 13, "a group that does not divide K": 14,
        "a group that contradicts the tensors": 14, "a group that is none": 14, "blocks that contradict the tensors": 2,
    }  # fmt: skip
    assert {
        kind: min(len(FOLDERS) - len(lacking[kind]), count) for kind, count in at_least.items()
    } == at_least
