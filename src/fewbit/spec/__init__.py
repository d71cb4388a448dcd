"""The vocabulary of fewbit as frozen dataclasses. Standard library only: reading it imports no array package."""
