"""From the tensors of a folder to canonical ones: what a format says of each module, and the proof that it spoke of all.

A module is what lies before the last dot of a tensor's name; its leaves are the last parts. The format's resolver claims
leaves; a plain floating leaf that nobody claims (a bias, a norm) is taken as it is; any other is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import NoReturn, Protocol, TypeVar, runtime_checkable

from fewbit.formats.folder.kin import Kin
from fewbit.formats.folder.names import AS_THEY_ARE, Names
from fewbit.formats.folder.parts import Part, Rows
from fewbit.formats.folder.safetensors import DiskTensor
from fewbit.spec.dtype import DType
from fewbit.spec.layer_quant import NO_LAYER_QUANT, LayerQuant
from fewbit.spec.refusal import CheckpointError
from fewbit.spec.scheme import Scheme

NO_STACKS: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Resolved:
    """A canonical tensor: `name` as the checkpoint spells it (`...q_proj.weight`), its parts by role, the rule that says so."""

    name: str
    scheme: Scheme
    shape: tuple[int, ...]
    parts: Mapping[str, Part]
    rule: str
    layer: LayerQuant = NO_LAYER_QUANT


@dataclass(frozen=True, slots=True)
class Unquantized:
    """The module's weight is a plain float because `rule` says so; any leaf among the resolver's `signs` contradicts it."""

    rule: str


@dataclass(frozen=True, slots=True)
class Auxiliary:
    """A tensor that a LayerQuant names, or a scale of the cache: read by name, as f32 of `shape`."""

    name: str
    dtype: DType
    shape: tuple[int, ...]
    part: Part


@dataclass(frozen=True, slots=True)
class Explained:
    """A disk tensor that is rightly not used, and why."""

    tensor: DiskTensor
    why: str


T = TypeVar("T")
N = TypeVar("N", Resolved, Auxiliary)
Claim = Resolved | Unquantized | Auxiliary | Explained


@dataclass(frozen=True)
class Module:
    """A module's name in the file and its tensors by leaf. `need` and `fail` make the errors that a format owes its user.

    `stack`: the stored name of the tensor that holds this expert with others, "" where the module has tensors of its own.
    """

    name: str
    leaves: Mapping[str, DiskTensor]
    stack: str = ""
    names: Names = AS_THEY_ARE

    @property
    def is_half(self) -> bool:
        """The gate or up of a stack of both."""
        return self.stack.endswith("gate_up_proj")

    @cached_property
    def spellings(self) -> tuple[str, ...]:
        """Other names by which a rule may call it: an expert out of a stack also goes by that of the stack or of what holds it."""
        stacks = (self.stack, self.stack.rpartition(".")[0]) if self.stack else ()
        return (*self.names.spellings(self.name), *stacks)

    def rule(self, find: Callable[[str], T]) -> T:
        """What `find` says of the module's own name, else of its other spellings: the first that is not empty."""
        found = find(self.name)
        return found or next(filter(None, map(find, self.spellings)), found)

    def fail(self, message: str) -> NoReturn:
        file = next(iter(self.leaves.values())).file.path
        raise CheckpointError(f"{file}: module {self.name!r} {message}")

    def get(self, leaf: str, *kinds: str, shape: tuple[int, ...] | None = None) -> DiskTensor | None:
        """The leaf, None when absent; an error when it is of another type or shape than given."""
        tensor = self.leaves.get(leaf)
        if tensor is None:
            return None
        if kinds and tensor.kind not in kinds:
            self.wrong(tensor, f"type {' or '.join(kinds)}")
        if shape is not None and tensor.shape != shape:
            self.wrong(tensor, f"shape {list(shape)}")
        return tensor

    def need(self, leaf: str, rule: str, *kinds: str, shape: tuple[int, ...] | None = None) -> DiskTensor:
        tensor = self.get(leaf, *kinds, shape=shape)
        if tensor is None:
            self.fail(
                f"has no tensor {leaf!r}, which {rule} needs (it has {', '.join(self.leaves)}); it is incomplete"
            )
        return tensor

    def wrong(self, tensor: DiskTensor, expected: str) -> NoReturn:
        raise CheckpointError(
            f"{tensor.file.path}: tensor {tensor}, expected {expected}; the checkpoint is broken"
        )

    @property
    def plain_weight(self) -> DiskTensor | None:
        """The `weight` where it is a plain float."""
        weight = self.leaves.get("weight")
        return weight if weight is not None and weight.is_plain else None


class Resolver(Protocol):
    """A format, bound to one folder's config. `signs`: leaves that only a quantized module has."""

    signs: frozenset[str]

    def split(self, name: str) -> tuple[str, str]:
        """Tensor name to (module, leaf); `split_name` does it for most."""
        ...

    def resolve(self, module: Module) -> Iterable[Claim]: ...


@runtime_checkable
class NamesModules(Protocol):
    """A resolver whose config names single modules."""

    def check_named(self, modules: Collection[Module]) -> None:
        """An error where it names one that the folder does not hold."""
        ...


@runtime_checkable
class HasNotes(Protocol):
    """A resolver that has leaves which say nothing of weights: one module may have them and the next not."""

    notes: frozenset[str]


@dataclass(frozen=True, slots=True)
class Resolution:
    """All that a folder holds, each disk tensor in exactly one place."""

    tensors: dict[str, Resolved] = field(default_factory=dict)
    auxiliary: dict[str, Auxiliary] = field(default_factory=dict)
    explained: dict[str, str] = field(default_factory=dict)
    unquantized: dict[str, str] = field(default_factory=dict)


def split_name(name: str) -> tuple[str, str]:
    module, _, leaf = name.rpartition(".")
    return module, leaf


def resolve_all(
    resolver: Resolver,
    disk: Mapping[str, DiskTensor],
    what: str,
    stack_of: Mapping[str, str] = NO_STACKS,
    names: Names = AS_THEY_ARE,
) -> Resolution:
    """`what` names the format for errors; `stack_of` the stored stacks of modules that were taken out of one. What is found has
    canonical names by `names`."""
    notes = resolver.notes if isinstance(resolver, HasNotes) else frozenset()
    found, kin, modules = (
        Resolution(),
        Kin(resolver.signs - notes),
        list(_modules(resolver, disk, stack_of, names)),
    )
    if isinstance(resolver, NamesModules):
        resolver.check_named(modules)
    for module in modules:
        taken: set[str] = set()
        quantized, rule = "", ""
        for claim in resolver.resolve(module):
            match claim:
                case Resolved():
                    _add(found.tensors, _canonical(claim, names), module)
                    used = [t for part in claim.parts.values() for t in part.tensors]
                    quantized = quantized or ("" if claim.scheme.is_plain else claim.rule)
                case Auxiliary():
                    _add(found.auxiliary, replace(claim, name=names.canonical(claim.name)), module)
                    used = list(claim.part.tensors)
                case Explained():
                    found.explained[claim.tensor.name] = claim.why
                    used = [claim.tensor]
                case Unquantized():
                    rule = found.unquantized[names.canonical(module.name)] = claim.rule
                    used = []
            taken |= {t.name for t in used}
        _take_rest(resolver, module, taken, quantized, rule, what, found)
        if quantized:
            kin.add(module, quantized)
    kin.check()
    return found


def _take_rest(
    resolver: Resolver,
    module: Module,
    taken: set[str],
    quantized: str,
    rule: str,
    what: str,
    found: Resolution,
) -> None:
    """Leaves that the resolver did not claim."""
    for leaf, tensor in module.leaves.items():
        if tensor.name in taken:
            continue
        if rule and (leaf in resolver.signs or (leaf == "weight" and not tensor.is_plain)):
            module.fail(
                f"is left unquantized by {rule}, but its tensor {tensor} says otherwise; they contradict each other"
            )
        if quantized and leaf == "weight":
            module.fail(
                f"is quantized by {quantized}, but it also holds the tensor {tensor}; expected one of them"
            )
        if not tensor.is_plain or leaf in resolver.signs or (quantized and not leaf.endswith("bias")):
            because = f" (module {module.name!r} is quantized by {quantized})" if quantized else ""
            raise CheckpointError(
                f"{tensor.file.path}: tensor {tensor} is taken by nothing in the format {what}{because}; "
                "the checkpoint is a variant that is not supported, or broken"
            )
        name = module.names.canonical(f"{module.name}.{leaf}" if module.stack else tensor.name)
        _add(found.tensors, plain(tensor, rule or "no rule names it", name), module)


def plain(tensor: DiskTensor, rule: str, name: str = "") -> Resolved:
    """A plain float tensor as it is; a scalar has shape [1]."""
    shape = tensor.shape or (1,)
    part = Rows(tensor if tensor.shape else _as_vector(tensor))
    return Resolved(name or tensor.name, Scheme(tensor.dtype), shape, {"codes": part}, rule)


def _as_vector(tensor: DiskTensor) -> DiskTensor:
    return DiskTensor(tensor.name, tensor.kind, (1,), tensor.start, tensor.bytes, tensor.file)


def _canonical(claim: Resolved, names: Names) -> Resolved:
    name, layer = names.canonical(claim.name), claim.layer.renamed(names.canonical)
    return claim if (name, layer) == (claim.name, claim.layer) else replace(claim, name=name, layer=layer)


def _modules(
    resolver: Resolver, disk: Mapping[str, DiskTensor], stack_of: Mapping[str, str], names: Names
) -> Iterator[Module]:
    grouped: dict[str, dict[str, DiskTensor]] = {}
    for name, tensor in disk.items():
        module, leaf = resolver.split(name)
        grouped.setdefault(module, {})[leaf] = tensor
    for name, leaves in grouped.items():
        yield Module(name, leaves, stack_of.get(name, ""), names)


def _add(into: dict[str, N], claim: N, module: Module) -> None:
    if claim.name in into:
        module.fail(f"gives the tensor {claim.name!r} a second time; expected it once")
    into[claim.name] = claim
