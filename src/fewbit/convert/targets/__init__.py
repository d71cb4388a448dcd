"""What each format that is written can say of a tensor, and how: one module a format."""
