"""simd/: the functions of each instruction set against numpy and against the scalar definition, tiles against their emulation.

test_simd_probe.cpp is compiled here with the flags of cmake/isa.cmake; the tests are skipped where there is no compiler.
"""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from fewbit.kernels.cpu import library
from fewbit.spec.features import ISAS
from tests.kernels.cpu.rows import assert_close, assert_same_bits

ROOT = Path(__file__).parents[3]
VECTORS = ("scalar", "avx2", "avx512")
COMMON = ("-O3", "-std=c++20", "-ffp-contract=off", "-fno-math-errno", "-fPIC", "-shared", "-w")
U = 2.0**-24
SPECIAL = np.array(
    [
        0,
        -0.0,
        1e-45,
        -1e-45,
        1.5e-38,
        1,
        -1,
        88.7,
        88.73,
        89,
        -87.3,
        -87.4,
        -104,
        3e38,
        -3e38,
        np.inf,
        -np.inf,
        np.nan,
    ],
    np.float32,
)


@cache
def flags(stem: str) -> tuple[str, ...]:
    """As cmake/isa.cmake gives them, references to other stems resolved."""
    table = (ROOT / "cmake" / "isa.cmake").read_text()
    found = re.search(rf'set\(FLAGS_{stem} "?([^)"]*)"?\)', table)
    assert found, f"cmake/isa.cmake has no FLAGS_{stem}"
    words = re.sub(r"\$\{FLAGS_(\w+)\}", lambda m: " ".join(flags(m[1])), found[1])
    return tuple(words.split())


@pytest.fixture(scope="session")
def probe(tmp_path_factory):
    """The probe library of an instruction set; skips when the machine or the compiler is not there."""
    compiler = shutil.which("g++") or shutil.which("c++")
    folder = tmp_path_factory.mktemp("simd")
    built: dict[str, ctypes.CDLL] = {}

    def load(stem: str) -> ctypes.CDLL:
        if compiler is None:
            pytest.skip("no C++ compiler")
        lacking = ISAS[stem].requires - library.cpu_features()
        if lacking:
            pytest.skip(f"{stem} requires {', '.join(sorted(lacking))}")
        if stem not in built:
            out = folder / f"{stem}.so"
            source = Path(__file__).with_name("test_simd_probe.cpp")
            include = f"-I{ROOT / 'src/fewbit/kernels/cpu'}"
            subprocess.run(
                [compiler, *COMMON, *flags(stem), f"-DFB_ISA={stem}", include, str(source), "-o", str(out)],
                check=True,
            )
            built[stem] = ctypes.CDLL(str(out))
        return built[stem]

    return load


def call(lib: ctypes.CDLL, name: str, x: np.ndarray, out_type: type = np.float32) -> np.ndarray:
    """The probe over x, padded to whole vectors."""
    padded = np.zeros(-(-x.size // 16) * 16, x.dtype)
    padded[: x.size] = x
    y = np.zeros(padded.size, out_type)
    getattr(lib, f"probe_{name}")(
        ctypes.c_void_p(padded.ctypes.data), ctypes.c_void_p(y.ctypes.data), ctypes.c_int64(padded.size)
    )
    return y[: x.size]


def arguments(name: str) -> np.ndarray:
    spread = np.linspace(-1, 1, 1 << 18, dtype=np.float32)
    match name:
        case "exp":
            return spread * np.float32(87.3)
        case "exp_nonpositive":
            return -abs(spread) * np.float32(87.3)
        case "silu":
            return spread * np.float32(80)
        case _:
            return np.concatenate([np.exp(spread * 87), 1 + spread / 2]).astype(np.float32)


@pytest.mark.parametrize("stem", VECTORS)
@pytest.mark.parametrize(
    "name, relative", [("exp", 8.4e-8), ("exp_nonpositive", 8.4e-8), ("log", 7.8e-8), ("silu", 1.8e-7)]
)
def test_functions_keep_their_stated_error(probe, stem, name, relative):
    x = arguments(name)
    wide = x.astype(np.float64)
    expected = (
        np.log(wide) if name == "log" else wide / (1 + np.exp(-wide)) if name == "silu" else np.exp(wide)
    )
    assert_close(call(probe(stem), name, x), expected, relative * np.abs(expected), f"{name} on {stem}")


@pytest.mark.parametrize("stem", VECTORS)
def test_special_arguments(probe, stem):
    with np.errstate(all="ignore"):
        wide = SPECIAL.astype(np.float64)
        exp = np.where(wide < -87.34, 0, np.where(wide > 88.7229, np.inf, np.exp(wide)))
        log = np.where(wide < 0, np.nan, np.where(wide < 2.0**-126, -np.inf, np.log(np.abs(wide))))
    for name, expected in (("exp", exp), ("log", log)):
        found = call(probe(stem), name, SPECIAL)
        assert (np.isnan(found) == np.isnan(expected)).all(), name
        assert (np.isinf(found) == np.isinf(expected)).all() and (np.sign(found) == np.sign(expected))[
            ~np.isnan(expected)
        ].all(), name
        finite = np.isfinite(expected)
        assert_close(found[finite], expected[finite], 2 * U * np.abs(expected[finite]), name)
    below = call(probe(stem), "exp_nonpositive", SPECIAL[SPECIAL <= 0])
    assert_same_bits(below, call(probe(stem), "exp", SPECIAL[SPECIAL <= 0]), "exp_nonpositive")
    assert np.isnan(call(probe(stem), "exp_nonpositive", np.full(16, np.nan, np.float32))).all()


@pytest.mark.parametrize("stem", VECTORS[1:])
def test_same_bits_as_scalar(probe, stem):
    vector, scalar = probe(stem), probe("scalar")
    rng = np.random.default_rng(0)
    any_bits = np.concatenate([SPECIAL, rng.integers(0, 2**32, 1 << 16, np.uint32).view(np.float32)])
    any_bits[16:32] = rng.standard_normal(16)  # an operand that every lane meets
    halves = np.arange(1 << 16, dtype=np.uint16)
    inputs = {
        **{
            n: (any_bits, np.float32)
            for n in ("exp", "exp_nonpositive", "log", "silu", "reduce_add", "reduce_max", "partial")
        },
        **{n: (any_bits, np.float32) for n in ("min", "max", "fma", "fnma", "less", "even_bf16", "odd_bf16")},
        "to_bf16": (any_bits, np.uint16),
        "f16": (halves, np.float32),
        "bf16": (halves, np.float32),
        "fields": (any_bits.view(np.uint32), np.float32),
        "signed": (halves.view(np.int8), np.float32),
        "unsigned": (halves.view(np.uint8), np.float32),
    }
    for name, (x, out_type) in inputs.items():
        assert_same_bits(
            call(vector, name, x, out_type), call(scalar, name, x, out_type), f"{name} on {stem}"
        )


@pytest.mark.parametrize("stem", VECTORS)
def test_definitions(probe, stem):
    lib = probe(stem)
    halves = np.arange(1 << 16, dtype=np.uint16)
    assert_same_bits(call(lib, "f16", halves), halves.view(np.float16).astype(np.float32), "f16")
    assert_same_bits(call(lib, "bf16", halves), (halves.astype(np.uint32) << 16).view(np.float32), "bf16")
    x = np.random.default_rng(1).standard_normal(1600).astype(np.float32)
    tree = x.reshape(-1, 16)
    for half in (8, 4, 2, 1):
        tree = tree[:, :half] + tree[:, half:]
    assert_same_bits(call(lib, "reduce_add", x), np.repeat(tree[:, 0], 16), "reduce_add")
    words = x.view(np.uint32)
    assert_same_bits(call(lib, "even_bf16", x), (words << 16).view(np.float32), "even")
    assert_same_bits(call(lib, "odd_bf16", x), (words & 0xFFFF0000).view(np.float32), "odd")
    assert_same_bits(call(lib, "fields", words), (words >> 5 & 31).astype(np.float32), "fields")


# ---- tiles ----

SHAPES = ((16, 16, 64), (1, 16, 64), (3, 5, 12), (16, 1, 4), (7, 16, 32))  # rows, n, k_bytes


def multiply(
    lib: ctypes.CDLL, a: np.ndarray, b: np.ndarray, c: np.ndarray, shape: tuple[int, int, int], kind: int
) -> np.ndarray:
    c = c.copy()
    lib.probe_tile(*(ctypes.c_void_p(x.ctypes.data) for x in (a, b, c)), *shape, kind)
    return c


def bf16_bits(rng: np.random.Generator, size: tuple[int, int], awkward: bool) -> np.ndarray:
    """Numbers near 1; awkward: any exponent, subnormals, zeros and infinities among them."""
    bits = (rng.standard_normal(size).astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    if awkward:
        bits = np.where(rng.random(size) < 0.3, rng.integers(0, 1 << 16, size), bits).astype(np.uint16)
        bits = np.where(
            rng.random(size) < 0.1, rng.integers(0, 128, size) | rng.integers(0, 2, size) << 15, bits
        ).astype(np.uint16)
    return bits


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_emulated_tiles(probe, shape):
    """bf16 within the bound of its sums, integers exactly."""
    rows, n, k_bytes = shape
    rng = np.random.default_rng(0)
    a, b = bf16_bits(rng, (rows, k_bytes // 2), False), bf16_bits(rng, (k_bytes // 4, 2 * n), False)
    c = rng.standard_normal((rows, n)).astype(np.float32)
    wide = [(x.astype(np.uint32) << 16).view(np.float32).astype(np.float64) for x in (a, b)]
    right = wide[1].reshape(-1, n, 2).transpose(0, 2, 1).reshape(-1, n)  # [k, n]
    bound = (k_bytes // 4 + 2) * U * (np.abs(wide[0]) @ np.abs(right) + np.abs(c))
    assert_close(multiply(probe("scalar"), a, b, c, shape, 0), wide[0] @ right + c, bound, "bf16")
    for kind, types in enumerate(
        ((np.int8, np.int8), (np.int8, np.uint8), (np.uint8, np.int8), (np.uint8, np.uint8)), 1
    ):
        a8, b8 = (rng.integers(0, 256, size, np.uint8) for size in ((rows, k_bytes), (k_bytes // 4, 4 * n)))
        right8 = b8.view(types[1]).astype(np.int64).reshape(-1, n, 4).transpose(0, 2, 1).reshape(-1, n)
        c8 = rng.integers(-1000, 1000, (rows, n)).astype(np.int32)
        expected = (a8.view(types[0]).astype(np.int64) @ right8 + c8).astype(np.int32)
        assert_same_bits(multiply(probe("scalar"), a8, b8, c8, shape, kind), expected, f"kind {kind}")


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("awkward", (False, True))
def test_hardware_tiles_have_the_bits_of_the_emulation(probe, shape, awkward):
    hardware, emulation = probe("amx"), probe("scalar")
    rows, n, k_bytes = shape
    rng = np.random.default_rng(1)
    for _ in range(20):
        a, b = bf16_bits(rng, (rows, k_bytes // 2), awkward), bf16_bits(rng, (k_bytes // 4, 2 * n), awkward)
        c = rng.standard_normal((rows, n)).astype(np.float32)
        for kind in range(5):
            found, expected = (multiply(lib, a, b, c, shape, kind) for lib in (hardware, emulation))
            assert_same_bits(found, expected, f"kind {kind}")
