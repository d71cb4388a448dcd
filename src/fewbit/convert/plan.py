"""Which scheme each tensor gets in the target: decided before anything is written, proved on the data where it changes."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import lcm

from fewbit.convert.pieces import WORD_ROWS, cuts
from fewbit.convert.requantize import Limits, Rounding, limits_of, round_piece
from fewbit.convert.rewrite import Inexact, prove, rewrite
from fewbit.convert.source import Source, is_matrix, module_of
from fewbit.convert.target import Described, Said, Target, find_target
from fewbit.convert.variants import variants
from fewbit.formats.checkpoint import TensorInfo
from fewbit.schemes.plain.scheme import BF16, F16, F32
from fewbit.spec.refusal import FewbitError
from fewbit.spec.scheme import QuantTensor, Scheme

Progress = Callable[[int], None]
"""Is told the bytes of the source that were worked through."""


@dataclass(frozen=True, slots=True)
class Planned:
    """A tensor and what it becomes. `said` None: it is plain there. `limits`: it is rounded, within these of the whole."""

    info: TensorInfo
    scheme: Scheme
    said: Said | None = None
    limits: Limits | None = None

    @property
    def is_rounded(self) -> bool:
        return self.limits is not None

    def convert(self, piece: QuantTensor) -> QuantTensor:
        if self.limits is not None:
            return round_piece(piece, self.scheme, self.limits)
        return rewrite(piece, self.scheme)

    def pieces(self, source: Source) -> Iterator[tuple[int, QuantTensor]]:
        """First row and parts of each piece, as the source has them."""
        for start, stop in cuts(self.info.shape, self.info.scheme.block_n, self.scheme.block_n):
            yield start, source.checkpoint.read(self.info.name, start, stop)


def make_plan(source: Source, target: Target, rounding: Rounding | None, progress: Progress) -> list[Planned]:
    """In the source's order; FewbitError names the first tensor that the target cannot hold."""
    planner = _Planner(source, target, rounding, progress)
    return planner.plan()


@dataclass(frozen=True)
class _Planner:
    source: Source
    target: Target
    rounding: Rounding | None
    progress: Progress

    def plan(self) -> list[Planned]:
        made: dict[str, Planned] = {}
        options: dict[str, dict[Hashable, list[tuple[Scheme, Said]]]] = {}
        for name, info in self.source.tensors.items():
            if not self._is_quantized(info):
                vector = len(info.shape) == 1 and self.target.name == "gguf"  # its readers want F32
                made[name] = Planned(info, F32 if vector else info.scheme)
                self.progress(info.bytes_on_disk)
                continue
            if info.scheme.mask and info.scheme.scale is None:
                made[name] = self._unmasked(info)
                continue
            found = self._options(info)
            if found:
                options[name] = found
            else:
                made[name] = self._as_floats(info, self._why(info))
        if options:
            made |= self._together(options)
        return [made[name] for name in self.source.tensors]

    def _unmasked(self, info: TensorInfo) -> Planned:
        """Sparse floats, dense: a plain tensor in every format."""
        planned = Planned(info, Scheme(info.scheme.codes))
        try:
            self._prove(planned)
        except Inexact as error:
            raise self._refusal(info.name, str(error)) from None
        self.progress(info.bytes_on_disk)
        return planned

    def _is_quantized(self, info: TensorInfo) -> bool:
        """A plain tensor stays as it is; in a plain checkpoint, `rounding` takes the matrices of its layers."""
        taken = self.rounding is not None and self.rounding.takes(info, self.source)
        return taken or not info.scheme.is_plain

    def _schemes(self, info: TensorInfo) -> tuple[Scheme, ...]:
        n, k = info.shape
        if self.rounding is not None:
            return self.rounding.schemes
        found = variants(info.scheme, n, k)
        return (*found, *_FLOATS) if self.target.name == "plain" else found

    def _options(self, info: TensorInfo) -> dict[Hashable, list[tuple[Scheme, Said]]]:
        """What the target can say of the weight, grouped by what all modules must share."""
        found: dict[Hashable, list[tuple[Scheme, Said]]] = {}
        for scheme in self._schemes(info):
            said = say(self.target, self.source.describe(info, scheme))
            if isinstance(said, Said):
                found.setdefault(said.common, []).append((scheme, said))
        return found

    def _why(self, info: TensorInfo) -> str:
        said = say(self.target, self.source.describe(info, self._schemes(info)[0]))
        assert isinstance(said, str)
        return said

    def _together(
        self, options: Mapping[str, dict[Hashable, list[tuple[Scheme, Said]]]]
    ) -> dict[str, Planned]:
        """All weights under the first common settings that hold every one of them exactly."""
        names = list(options)
        shared = [c for c in options[names[0]] if all(c in found for found in options.values())]
        shared.sort(key=lambda common: self._bits(options, common))
        failed: tuple[str, str] | None = None
        for common in shared:
            made: dict[str, Planned] = {}
            for name, found in options.items():
                chosen = self._choose(self.source.tensors[name], found[common])
                if isinstance(chosen, str):
                    failed = failed or (name, chosen)
                    break
                made[name] = chosen
            else:
                return made
        if failed is None:
            first = next(n for n in names if not options[names[0]].keys() & options[n].keys())
            raise self._refusal(
                first, f"and {names[0]} have no settings in common that all modules could have"
            )
        raise self._refusal(*failed)

    def _bits(
        self, options: Mapping[str, dict[Hashable, list[tuple[Scheme, Said]]]], common: Hashable
    ) -> tuple[int, float]:
        """How many weights would change, then how large all become."""
        changed, bits = 0, 0.0
        for name, found in options.items():
            n, k = self.source.tensors[name].shape
            scheme = found[common][0][0]
            changed += scheme != self.source.tensors[name].scheme
            bits += scheme.bits_per_weight(n, k) * n * k
        return changed, bits

    def _choose(self, info: TensorInfo, options: list[tuple[Scheme, Said]]) -> Planned | str:
        """The first that is exact on the data, or why the likeliest is not."""
        if self.rounding is not None:
            return self._rounded(info, options)
        why = ""
        for scheme, said in options:
            planned = Planned(info, scheme, said)
            try:
                self._check_stored(planned)
                if scheme != info.scheme:
                    self._prove(planned)
            except (Inexact, ValueError) as error:
                why = why or str(error)
                continue
            self.progress(info.bytes_on_disk)
            return planned
        if self.source.describe(info, info.scheme).embedding:
            return self._as_floats(info, why)
        return why

    def _rounded(self, info: TensorInfo, options: list[tuple[Scheme, Said]]) -> Planned:
        """Without loss where the numbers already are of the scheme."""
        for scheme, said in options:
            try:
                self._prove(exact := Planned(info, scheme, said))
            except (Inexact, ValueError):
                continue
            self.progress(info.bytes_on_disk)
            return exact
        scheme, said = options[0]
        limits = limits_of(self.source, info, scheme)
        self.progress(info.bytes_on_disk)
        why = ""
        for wider in limits.widened():
            planned = Planned(info, scheme, said, wider)
            try:
                self._check_stored(planned)
            except ValueError as error:
                why = str(error)
                continue
            return planned
        raise self._refusal(info.name, why)

    def _check_stored(self, planned: Planned) -> None:
        """ValueError when the first rows hold something that the target's encoder cannot write, whatever the scheme says."""
        assert planned.said is not None
        info = planned.info
        rows = min(lcm(WORD_ROWS, info.scheme.block_n, planned.scheme.block_n), info.shape[0])
        planned.said.leaves(planned.convert(self.source.checkpoint.read(info.name, 0, rows)))

    def _prove(self, planned: Planned) -> None:
        for start, piece in planned.pieces(self.source):
            prove(piece, planned.convert(piece), start)

    def _as_floats(self, info: TensorInfo, why: str) -> Planned:
        """Embeddings that the target cannot say quantized: the smallest floats that hold them exactly."""
        if not self.source.describe(info, info.scheme).embedding or self.target.name == "plain":
            raise self._refusal(info.name, why)
        for scheme in _FLOATS:
            try:
                self._prove(planned := Planned(info, scheme))
            except Inexact:
                continue
            self.progress(info.bytes_on_disk)
            return planned
        raise self._refusal(info.name, why)

    def _refusal(self, name: str, why: str) -> FewbitError:
        info = self.source.tensors[name]
        layer, ways = self.source.layer(info), []
        if layer.input_quant is not None:
            ways.append("--weights-only leaves out how inputs were quantized")
        if self.rounding is None and not any(layer.demands()):
            ways.append("--requantize SCHEME rounds the weights to another scheme")
        return FewbitError(
            f"{self.source.path}: tensor {name} ({info.scheme}) cannot be converted to {self.target.name} without loss: "
            f"{why}" + (f"; {', '.join(ways)}" if ways else "")
        )


_FLOATS = (BF16, F16, F32)


def say(target: Target, weight: Described) -> Said | str:
    """What the target says, or why it cannot."""
    return _said(target.name, weight)


@lru_cache(maxsize=1 << 16)
def _said(target: str, weight: Described) -> Said | str:
    try:
        return find_target(target).say(weight)
    except ValueError as error:
        return str(error)


def modules_of(plan: list[Planned]) -> tuple[dict[str, object], list[str]]:
    """Settings of quantized modules, and the plain matrices."""
    quantized = {module_of(p.info.name): p.said.settings for p in plan if p.said is not None}
    plain = [module_of(p.info.name) for p in plan if p.said is None and is_matrix(p.info)]
    return quantized, plain
