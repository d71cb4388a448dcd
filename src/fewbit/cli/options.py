"""The configuration classes as groups of flags, and their defaults."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from fewbit.cli.generating import SamplingConfig
from fewbit.config import EngineConfig, ModelConfig, ServerConfig, SourceConfig

SourceFlags = Annotated[SourceConfig, Parameter(name="*", group="Model")]
ModelFlags = Annotated[ModelConfig, Parameter(name="*", group="Model")]
EngineFlags = Annotated[EngineConfig, Parameter(name="*", group="Engine")]
ServerFlags = Annotated[ServerConfig, Parameter(name="*", group="Server")]
SamplingFlags = Annotated[SamplingConfig, Parameter(name="*", group="Sampling")]

SOURCE = SourceConfig()
MODEL = ModelConfig()
ENGINE = EngineConfig()
SERVER = ServerConfig()
SAMPLING = SamplingConfig()
