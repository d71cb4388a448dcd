"""x86-64 processors."""
