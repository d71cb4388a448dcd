"""ggml: its own quantizer of every type, in a file by gguf-py; its own `to_float` of what lies in a file."""

from __future__ import annotations

import ctypes
import importlib.util
from pathlib import Path
from typing import Any

import common
import gguf
import numpy as np
import torch

KINDS = gguf.GGMLQuantizationType


class Traits(ctypes.Structure):
    """The head of ggml_type_traits."""

    _fields_ = [
        ("type_name", ctypes.c_char_p),
        ("block", ctypes.c_int64),
        ("interleave", ctypes.c_int64),
        ("size", ctypes.c_size_t),
        ("is_quantized", ctypes.c_bool),
        ("to_float", ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)),
    ]


def open_ggml() -> ctypes.CDLL:
    found = importlib.util.find_spec("xllamacpp")
    assert found is not None and found.submodule_search_locations
    library = ctypes.CDLL(str(next(Path(found.submodule_search_locations[0]).glob("*.so"))))
    library.ggml_quantize_chunk.restype = ctypes.c_size_t
    pointer, extent = ctypes.c_void_p, ctypes.c_int64
    library.ggml_quantize_chunk.argtypes = [ctypes.c_int, pointer, pointer, extent, extent, extent, pointer]
    library.ggml_get_type_traits.restype = ctypes.POINTER(Traits)
    library.ggml_get_type_traits.argtypes = [ctypes.c_int]
    return library


GGML = open_ggml()


def quantize(values: np.ndarray, kind: KINDS, importance: np.ndarray) -> np.ndarray:
    traits = GGML.ggml_get_type_traits(int(kind)).contents
    rows, columns = values.shape
    out = np.zeros((rows, columns // traits.block * traits.size), np.uint8)
    data, to, weights = values.ctypes.data, out.ctypes.data, importance.ctypes.data
    assert GGML.ggml_quantize_chunk(int(kind), data, to, 0, rows, columns, weights) == out.size
    return out


def to_float(data: np.ndarray, kind: KINDS, shape: tuple[int, ...]) -> torch.Tensor:
    out, raw = np.zeros(shape, np.float32), np.ascontiguousarray(data).view(np.uint8)
    traits = GGML.ggml_get_type_traits(int(kind)).contents
    traits.to_float(raw.ctypes.data, out.ctypes.data, out.size)
    return torch.from_numpy(out)


def write(folder: Path, case: dict[str, Any]) -> common.Weights:
    """Every matrix has the case's type; the importance of columns is random."""
    config, kind = common.llama_config(case), KINDS[case["kind"]]
    folder.mkdir()
    writer = gguf.GGUFWriter(str(folder / "model.gguf"), "llama")
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_context_length(512)
    writer.add_embedding_length(config["hidden_size"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(32)
    writer.add_rope_freq_base(10000.0)
    writer.add_vocab_size(common.VOCAB)
    writer.add_tokenizer_model("none")
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, config["num_hidden_layers"])
    generator = np.random.default_rng(case["seed"])
    for name, parameter in common.llama(case, "f32").named_parameters():
        values = np.ascontiguousarray(parameter.detach().numpy())
        stored = names.get_name(name, try_suffixes=(".weight",))
        if values.ndim == 1:
            writer.add_tensor(stored, values)
        else:
            importance = 0.25 + generator.random(values.shape[1], np.float32)
            writer.add_tensor(stored, quantize(values, kind, importance), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return read(folder, case)


def read(folder: Path, case: dict[str, Any]) -> common.Weights:
    """By the file's names, in the file's order of rows."""
    found: common.Weights = {}
    for tensor in gguf.GGUFReader(str(folder / "model.gguf")).tensors:
        if tensor.tensor_type not in (KINDS.F32, KINDS.F16, KINDS.BF16):
            shape = tuple(int(extent) for extent in reversed(tensor.shape))
            found[tensor.name] = to_float(tensor.data, tensor.tensor_type, shape)
    return found


common.main(write=write, read=read)
