"""The engine: schedules sequences, runs their steps, and is reached by messages only."""
