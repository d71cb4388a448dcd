"""fewbit: serve language models in few bits, on CPUs first."""

__version__ = "0.1.0"
