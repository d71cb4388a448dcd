"""NVIDIA ModelOpt. Its table of FP4 has no negative zero."""

from __future__ import annotations

from typing import Any

import pytest

from fewbit.formats.modelopt.encode import algorithm_of
from fewbit.spec.dtype import E2M1, E4M3, E8M0, F32, I4, I8
from fewbit.spec.granularity import CHANNEL, TENSOR, group
from fewbit.spec.scheme import Scheme
from tests.formats.modelopt.fixture import tiny_modelopt
from tests.producers.tool import Tool, Write, check

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]


def case(seed: int, hidden: int, inner: int, config: str) -> dict[str, Any]:
    return {"seed": seed, "hidden": hidden, "inner": inner, "config": config}


WRITES = {
    "fp8": case(1, 192, 320, "FP8_DEFAULT_CFG"),
    "fp8-channel": case(2, 128, 192, "FP8_PER_CHANNEL_PER_TOKEN_CFG"),
    "fp8-blocks": case(3, 256, 384, "FP8_2D_BLOCKWISE_WEIGHT_ONLY_CFG"),
    "nvfp4": case(4, 192, 320, "NVFP4_DEFAULT_CFG"),
    "nvfp4-weights": case(5, 128, 256, "W4A16_NVFP4_CFG"),
    "nvfp4-mlp": case(6, 128, 192, "NVFP4_MLP_ONLY_CFG"),
    "mxfp8": case(7, 128, 224, "MXFP8_DEFAULT_CFG"),
    "int8-smooth": case(8, 192, 256, "INT8_SMOOTHQUANT_CFG"),
    "int4-awq": case(9, 128, 256, "INT4_AWQ_CFG"),
    "w4a8-awq": case(10, 256, 128, "W4A8_AWQ_BETA_CFG"),
}
SCHEMES = {
    "fp8": Scheme(E4M3, TENSOR, F32),
    "nvfp4": Scheme(E2M1, group(16), E4M3, global_scale=F32),
    "mxfp8": Scheme(E4M3, group(32), E8M0),
    "int8": Scheme(I8, CHANNEL, F32),
    "int4": Scheme(I4, group(128), F32),
}


def written(scheme: Scheme, seed: int) -> Write:
    return lambda folder: tiny_modelopt(
        folder, scheme, seed=seed, hidden_size=128, intermediate_size=256, head_dim=32
    )


READS: dict[str, tuple[Write, dict[str, Any]]] = {
    name: (written(scheme, seed), {}) for seed, (name, scheme) in enumerate(SCHEMES.items()) if algorithm_of(scheme)
}  # fmt: skip
TOOL = Tool("modelopt", "with_modelopt.py", WRITES, READS)


@pytest.mark.parametrize("name", WRITES)
def test_fewbit_reads_what_the_tool_writes(name: str, answers: Any) -> None:
    check(answers(TOOL), f"write-{name}", zero_signs="nvfp4" not in name)


@pytest.mark.parametrize("name", READS)
def test_the_tool_reads_what_fewbit_writes(name: str, answers: Any) -> None:
    check(answers(TOOL), f"read-{name}", zero_signs="nvfp4" not in name)
