"""compressed-tensors, with its own compressors and through transformers."""

from __future__ import annotations

from typing import Any

import pytest

from fewbit.spec import dtype
from fewbit.spec.granularity import CHANNEL, TENSOR, block, group
from fewbit.spec.scheme import Scheme
from tests.formats.compressed_tensors.fixture import tiny_compressed
from tests.oracles.table import CT_NVFP4
from tests.producers.tool import Tool, Write, check

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


def case(seed: int, hidden: int, inner: int, **weights: Any) -> dict[str, Any]:
    return {
        "seed": seed,
        "hidden": hidden,
        "inner": inner,
        "weights": {"type": "int", "symmetric": True, **weights},
    }


def grouped(size: int, **more: Any) -> dict[str, Any]:
    return {"strategy": "group", "group_size": size, **more}


WRITES: dict[str, dict[str, Any]] = {
    **{f"w{bits}-g{size}": case(bits, 128, 64 * bits, num_bits=bits, **grouped(size))
       for bits, size in ((2, 32), (3, 64), (4, 16), (5, 32), (6, 64), (7, 32), (8, 128))},
    **{f"w{bits}-asym": case(10 + bits, 192, 64 * bits, num_bits=bits, symmetric=False, **grouped(32)) for bits in (2, 3, 4, 8)},
    "w4-channel": case(21, 256, 128, num_bits=4, strategy="channel"),
    "w8-tensor-static": case(22, 128, 320, num_bits=8, strategy="tensor")
    | {"inputs": {"num_bits": 8, "type": "int", "strategy": "tensor", "symmetric": False}},
    "w8a8-channel": case(23, 192, 128, num_bits=8, strategy="channel")
    | {"inputs": {"num_bits": 8, "type": "int", "strategy": "token", "dynamic": True}},
    "fp8-tensor": case(24, 128, 192, num_bits=8, type="float", strategy="tensor"),
    "fp8-channel": case(25, 64, 192, num_bits=8, type="float", strategy="channel"),
    "fp8-block": case(26, 192, 320, num_bits=8, type="float", strategy="block", block_structure=[128, 128]),
    "fp8-block-64x32": case(27, 192, 160, num_bits=8, type="float", strategy="block", block_structure=[64, 32]),
    "nvfp4": case(28, 128, 176, num_bits=4, type="float", strategy="tensor_group", group_size=16),
    "mxfp4": case(29, 192, 320, num_bits=4, type="float", scale_dtype="torch.uint8", zp_dtype="torch.uint8", **grouped(32)),
    "mxfp6": case(31, 128, 160, num_bits=6, type="float", scale_dtype="torch.uint8", zp_dtype="torch.uint8", **grouped(32)),
    "mxfp8": case(30, 128, 224, num_bits=8, type="float", scale_dtype="torch.uint8", zp_dtype="torch.uint8", **grouped(32)),
}  # fmt: skip
F16, BF16, F32 = dtype.F16, dtype.BF16, dtype.F32
SCHEMES: dict[str, Scheme] = {
    **{f"i{bits}-g32": Scheme(dtype.dtype(f"i{bits}"), group(32), BF16) for bits in (2, 3, 4, 8)},
    "u4-g64": Scheme(dtype.U4, group(64), F16, zero_point=dtype.U4),
    "i4-channel": Scheme(dtype.I4, CHANNEL, F32),
    "i8-channel": Scheme(dtype.I8, CHANNEL, F32),
    "fp8-tensor": Scheme(dtype.E4M3, TENSOR, F32),
    "fp8-channel": Scheme(dtype.E4M3, CHANNEL, BF16),
    "fp8-block": Scheme(dtype.E4M3, block(128, 128), F32),
    "nvfp4": Scheme(dtype.E2M1, group(16), dtype.E4M3, global_scale=F32),
    "mxfp4": Scheme(dtype.E2M1, group(32), dtype.E8M0),
    "mxfp6": Scheme(dtype.E2M3, group(32), dtype.E8M0),
    "mxfp8": Scheme(dtype.E4M3, group(32), dtype.E8M0),
}


def written(scheme: Scheme, seed: int) -> Write:
    return lambda folder: tiny_compressed(folder, scheme, seed=seed, hidden_size=128, intermediate_size=192)


# transformers loads no packed zero points, not even the tool's own; MX it decompresses to bfloat16
DTYPES = {"u4-g64": "", "mxfp6": "bf16", "mxfp8": "bf16"}
READS = {
    name: (written(scheme, seed), {"transformers": DTYPES.get(name, "f32")})
    for seed, (name, scheme) in enumerate(SCHEMES.items())
}
TOOL = Tool("compressed_tensors", "with_compressed_tensors.py", WRITES, READS)


@pytest.mark.parametrize("name", WRITES)
def test_fewbit_reads_what_the_tool_writes(name: str, answers: Any) -> None:
    check(answers(TOOL), f"write-{name}", CT_NVFP4 if name == "nvfp4" else "exact")


@pytest.mark.parametrize("name", READS)
def test_the_tool_reads_what_fewbit_writes(name: str, answers: Any) -> None:
    check(answers(TOOL), f"read-{name}", CT_NVFP4 if name == "nvfp4" else "exact")
