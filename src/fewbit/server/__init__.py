"""OpenAI-compatible HTTP. It holds no model: it sends messages to the engine and turns its answers into text."""
