"""What `fewbit inspect` finds out from headers alone: the kernel or the refusal of every layer, bytes, coverage, memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod

from fewbit import layouts
from fewbit.config import Activations
from fewbit.formats.checkpoint import Checkpoint, TensorInfo
from fewbit.kernels.selector import Selector
from fewbit.layers.method import EmbeddingMethod, LinearMethod, choose_embedding, choose_linear
from fewbit.layers.spec import EmbeddingSpec, LinearSpec, ModelSpec
from fewbit.loader.memory import PAGE_TOKENS, Capacity, MemoryNeed, estimate
from fewbit.loader.ops import BETWEEN, CACHE, choose_between
from fewbit.loader.report import NOT_SERVED, check_headers
from fewbit.models import family
from fewbit.models.interface import ModelShape
from fewbit.spec.cell import Cell, Choice, KernelRow, Platform
from fewbit.spec.layout import Layout
from fewbit.spec.refusal import RefusedError
from fewbit.spec.scheme import Scheme

COMPONENTS = ("embedding", "trunk", "experts", "head")
CANONICAL = "canonical"  # layout of the reference backend


class Packing:
    """The two things of a backend that sizes need, without a library or threads. The reference holds weights as f32."""

    @staticmethod
    def layout(name: str, scheme: Scheme) -> Layout:
        return Layout(name, scheme, 1, 1) if name == CANONICAL else layouts.layout(name, scheme)

    @staticmethod
    def packed_bytes(layout: Layout, n: int, k: int) -> int:
        return 4 * n * k if layout.name == CANONICAL else layouts.packed_bytes(layout, n, k)


@dataclass(slots=True)
class Line:
    """Layers of a kind that run alike: the kernels of a decode step and of a prefill, or the refusal."""

    kind: str
    component: str
    scheme: str
    layout: str = ""
    decode: KernelRow | None = None
    prefill: KernelRow | None = None
    refusal: str = ""
    note: str = ""
    names: list[str] = field(default_factory=list)
    disk_bytes: int = 0
    packed_bytes: int = 0
    quantized: bool = False


@dataclass(frozen=True, slots=True)
class Inspection:
    """`others`: the ops without weights, with their kernels. `why_plain`: tensors held unquantized, by the rule that says so.
    `unused`: tensors of the text model that are rightly not
    read. `apart`: merged projections held in several matrices, by the reason.
    `need` is None when some layer has no kernel.
    """

    checkpoint: Checkpoint
    platform: Platform
    shape: ModelShape
    lines: tuple[Line, ...]
    others: Mapping[str, KernelRow]
    why_plain: Mapping[str, tuple[str, ...]]
    unused: Mapping[str, str]
    apart: Mapping[str, tuple[str, ...]]
    need: MemoryNeed | None
    capacity: Capacity
    context: int

    @property
    def refused(self) -> tuple[Line, ...]:
        return tuple(line for line in self.lines if line.refusal)

    def coverage(self) -> dict[str, tuple[int, int]]:
        """Bytes on disk of each component: (quantized, all). Towers beside the text model are components of their own."""
        found = {}
        for component in dict.fromkeys(
            (*COMPONENTS, *(line.component for line in self.lines if line.component))
        ):
            mine = [line for line in self.lines if line.component == component]
            found[component] = (
                sum(x.disk_bytes for x in mine if x.quantized),
                sum(x.disk_bytes for x in mine),
            )
        return found


def inspect_checkpoint(
    checkpoint: Checkpoint,
    platform: Platform,
    activations: Activations,
    backend: str,
    context: int | None,
    concurrency: int,
    batch_tokens: int,
) -> Inspection:
    """The same choices that the loader makes, layer by layer, so that every refusal is shown and not the first one."""
    module = family(checkpoint.model_type)
    config = module.parse(checkpoint.model_type, checkpoint.config, checkpoint.tensors.keys())
    spec, shape = module.describe(config), module.shape(config)
    unused = check_headers(spec, checkpoint)
    context = context or shape.max_position_embeddings
    pages = -(-context // PAGE_TOKENS)
    capacity = Capacity(max(batch_tokens, concurrency), concurrency, concurrency * pages + 1, pages)

    survey = Survey(checkpoint, Selector(platform, backend), activations, concurrency, capacity.max_rows)
    for linear in spec.linears:
        survey.linear(linear)
    embedding = survey.embedding(spec.embedding)
    survey.towers()
    survey.attention(shape)
    survey.other_ops(shape)

    need = None
    if embedding is not None and len(survey.methods) == len(spec.linears):
        need = estimate(tuple(survey.methods), embedding, spec, shape, Packing(), capacity)  # type: ignore[arg-type]
    return Inspection(
        checkpoint,
        platform,
        shape,
        tuple(survey.lines.values()),
        survey.others,
        _why_plain(spec, checkpoint.tensors),
        {name: why for name, why in unused.items() if not checkpoint.tensors[name].component},
        {why: tuple(names) for why, names in survey.apart.items()},
        need,
        capacity,
        context,
    )


class Survey:
    """Asks for the kernels of each layer, and groups those that run alike into lines."""

    def __init__(
        self,
        checkpoint: Checkpoint,
        selector: Selector,
        activations: str,
        decode_m: int,
        prefill_m: int,
    ) -> None:
        self.checkpoint, self.selector, self.activations = checkpoint, selector, activations
        self.tensors = checkpoint.tensors
        self.decode_m, self.prefill_m = decode_m, prefill_m
        self.schemes = {name: info.scheme for name, info in self.tensors.items()}
        self.lines: dict[tuple[object, ...], Line] = {}
        self.methods: list[LinearMethod] = []
        self.others: dict[str, KernelRow] = {}
        self.apart: dict[str, list[str]] = {}

    def linear(self, spec: LinearSpec) -> None:
        component = "head" if spec.kind == "head" else "trunk"
        infos = [self.tensors[weight.name] for weight in spec.weights]
        try:
            method = choose_linear(spec, self.checkpoint, self.selector, self.activations)
            for block in method.blocks:
                self.selector.choose("pack", block.scheme.name, (("k", block.k),), block.choice.layout)
        except RefusedError as refused:
            names = ", ".join(dict.fromkeys(info.scheme.name for info in infos))
            line = self._line(spec.kind, component, names, refusal=_reason(refused))
            line.names.append(spec.name)
            line.disk_bytes += sum(info.bytes_on_disk for info in infos)
            line.quantized = any(not info.scheme.is_plain for info in infos)
            return
        self.methods.append(method)
        for why in method.apart:
            self.apart.setdefault(why, []).append(spec.name)
        for block in method.blocks:
            line = self._line(
                spec.kind, component, block.scheme.name, block.choice, note="; ".join(method.notes)
            )
            line.names.append(spec.name)
            line.disk_bytes += sum(self.tensors[weight.name].bytes_on_disk for weight in block.weights)
            line.packed_bytes += _packed(block.choice, block.scheme, block.n, block.k)
            line.quantized = not block.scheme.is_plain

    def embedding(self, spec: EmbeddingSpec) -> EmbeddingMethod | None:
        info = self.tensors[spec.weight.name]
        head = next((method for method in self.methods if method.spec.name == spec.tied_to), None)
        note = f"reads the weight of {spec.tied_to}, to which it is tied" if spec.tied_to else ""
        try:
            method = choose_embedding(spec, self.schemes, self.selector, head)
        except RefusedError as refused:
            line = self._line("embedding", "embedding", info.scheme.name, refusal=_reason(refused))
            line.names.append(spec.name)
            return None
        line = self._line("embedding", "embedding", info.scheme.name, method.choice, note=note)
        line.names.append(spec.name)
        line.quantized = not info.scheme.is_plain
        if not spec.tied_to:
            line.disk_bytes = info.bytes_on_disk
            line.packed_bytes = _packed(method.choice, info.scheme, *spec.weight.shape)
        return method

    def towers(self) -> None:
        """What lies beside the text model: not served, but accounted for, and with it whether kernels would fit its layers."""
        for name, info in self.tensors.items():
            if not info.component:
                continue
            note = NOT_SERVED
            if len(info.shape) == 2:
                sizes = (("n", info.shape[0]), ("k", info.shape[1]))
                answer = self.selector.ask(Cell("linear", info.scheme.name, _scale(info.scheme), sizes=sizes))
                if not isinstance(answer, Choice):
                    note += f"; nothing here would run it: {answer[0]}"
            line = self._line(info.component, info.component, info.scheme.name, note=note)
            line.names.append(name)
            line.disk_bytes += info.bytes_on_disk
            line.quantized = not info.scheme.is_plain

    def attention(self, shape: ModelShape) -> None:
        """A line for each size of head; its two kernels are asked for by phase."""
        for head_dim in sorted({dim for _, dim in shape.kv_shapes}):
            sizes = (("head_dim", head_dim),)
            try:
                decode = self.selector.choose("attention", CACHE, sizes, phase="decode")
                prefill = self.selector.choose("attention", CACHE, sizes, phase="prefill")
            except RefusedError as refused:
                self._line("attention", "", CACHE, refusal=_reason(refused))
                continue
            line = self._line("attention", "", CACHE, decode, note=f"head_dim {head_dim}")
            line.prefill = prefill.row_for(self.prefill_m)

    def other_ops(self, shape: ModelShape) -> None:
        """The ops between the matrix products; a line only where one is refused."""
        head_dim = min(dim for _, dim in shape.kv_shapes)
        for op in BETWEEN:
            try:
                self.others[op] = choose_between(op, head_dim, self.selector, self.prefill_m)
            except RefusedError as refused:
                self._line(op, "", "", refusal=_reason(refused))

    def _line(
        self,
        kind: str,
        component: str,
        scheme: str,
        choice: Choice | None = None,
        refusal: str = "",
        note: str = "",
    ) -> Line:
        made = Line(kind, component, scheme, refusal=refusal, note=note)
        if choice:
            made.layout = choice.layout
            made.decode, made.prefill = choice.row_for(self.decode_m), choice.row_for(self.prefill_m)
        return self.lines.setdefault((kind, scheme, made.decode, made.prefill, refusal, note), made)


def _packed(choice: Choice, scheme: Scheme, n: int, k: int) -> int:
    return Packing.packed_bytes(Packing.layout(choice.layout, scheme), n, k)


def _scale(scheme: Scheme) -> str:
    return scheme.scale.name if scheme.scale else ""


def _reason(refused: RefusedError) -> str:
    return "; ".join(map(str, refused.refusals))


def _why_plain(spec: ModelSpec, tensors: Mapping[str, TensorInfo]) -> dict[str, tuple[str, ...]]:
    """Rule -> tensors. Vectors are never quantized; a matrix is plain only where the file stores it so."""
    vectors = [vector.tensor.name for vector in spec.vectors]
    biases = [bias.name for linear in spec.linears for bias in linear.biases if bias]
    matrices = [spec.embedding.weight, *(weight for linear in spec.linears for weight in linear.weights)]
    plain = dict.fromkeys(m.name for m in matrices if tensors[m.name].scheme.is_plain)
    rules = {"norms (vectors stay in f32)": vectors, "biases (vectors stay in f32)": biases}
    for name in plain:
        stored, why = f"stored as {tensors[name].scheme} in the file", tensors[name].rule
        rules.setdefault(f"{stored}: {why}" if why else stored, []).append(name)
    return {rule: tuple(names) for rule, names in rules.items() if names}


def parameters(checkpoint: Checkpoint) -> int:
    return sum(prod(info.shape) for info in checkpoint.tensors.values())
