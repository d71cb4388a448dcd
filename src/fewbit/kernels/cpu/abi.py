"""ctypes mirrors of core/fewbit.h, field for field; a test compares them with fb_struct_layout.

Every pointer is a plain address (c_void_p): the buffers that own the memory are kept alive by the plan that uses it.
"""

from __future__ import annotations

import ctypes
from ctypes import CFUNCTYPE, POINTER, Structure, c_float, c_int32, c_int64, c_void_p

ABI = 1
PAGE_TOKENS = 32
TOP_LOGPROBS = 20


class Worker(Structure):
    _fields_ = (("thread", c_int32), ("threads", c_int32), ("scratch", c_void_p), ("scratch_bytes", c_int64))


WORKSPACE_BYTES = CFUNCTYPE(c_int64, c_void_p, c_int64)
RUN = CFUNCTYPE(None, c_void_p, c_int32, POINTER(Worker))


class Kernel(Structure):
    _fields_ = (("abi", c_int32), ("phases", c_int32), ("workspace_bytes", WORKSPACE_BYTES), ("run", RUN))


class Step(Structure):
    _fields_ = (("kernel", POINTER(Kernel)), ("args", c_void_p), ("overlap", c_int32), ("reserved", c_int32))


# fmt: off
# Fields by their C type: P pointer, L int64, I int32, F float.
ARGS: dict[str, str] = {
    "linear": "x:P x_stride:L weight:P bias:P norm:P y:P y_stride:L rows:P workspace:P n:L k:L accumulate:I "
              "fold:I alpha:F shift:F limit:F eps:F input_kind:I input_scale:F input_zero:I reserved:I",
    "embedding": "ids:P weight:P y:P y_stride:L rows:P n:L k:L",
    "pack": "codes:P scale:P offset:P super_scale:P super_offset:P packed:P form:P "
            "codes_stride:L scale_stride:L super_scale_stride:L n:L k:L",
    "rms_norm": "x:P x_stride:L weight:P y:P y_stride:L residual:P residual_stride:L rows:P dim:L rows_per:I eps:F",
    "rope_angles": "positions:P inv_freq:P cos:P sin:P rows:P half_dim:L scale:F reserved:I",
    "rope": "x:P x_stride:L cos:P sin:P rows:P heads:L head_dim:L rotary_dim:L",
    "kv_store": "k:P k_stride:L v:P v_stride:L k_cache:P v_cache:P slots:P rows:P kv_heads:L head_dim:L",
    "swiglu": "gate_up:P gate_up_stride:L y:P y_stride:L rows:P dim:L alpha:F shift:F limit:F reserved:I",
    "attention": "q:P q_stride:L k_cache:P v_cache:P page_table:P page_table_stride:L seqs:P q_start:P kv_len:P "
                 "out:P out_stride:L workspace:P heads:L kv_heads:L head_dim:L max_seqs:L max_kv_len:L scale:F window:I",
    "gather_rows": "x:P x_stride:L index:P y:P y_stride:L rows:P dim:L",
    "sample": "logits:P logits_stride:L rows:P temperature:P top_k:P top_p:P min_p:P uniform:P top_n:P "
              "ids:P logprob:P top_ids:P top_logprobs:P nan:P workspace:P vocab:L",
}
# fmt: on
_TYPES = {"P": c_void_p, "L": c_int64, "I": c_int32, "F": c_float}


def _struct(op: str, fields: str) -> type[Structure]:
    pairs = [tuple(field.split(":")) for field in fields.split()]
    return type(f"{op}_args", (Structure,), {"_fields_": [(name, _TYPES[kind]) for name, kind in pairs]})


STRUCTS: dict[str, type[Structure]] = {op: _struct(op, fields) for op, fields in ARGS.items()}


def layout(struct: type[Structure]) -> str:
    """The text that fb_struct_layout gives for the same struct: size, then name offset size of every field."""
    words = [str(ctypes.sizeof(struct))]
    for name, *_ in struct._fields_:
        field = getattr(struct, name)
        words += [name, str(field.offset), str(field.size)]
    return " ".join(words)
