"""What Linux lets this process use: processors, control groups, memory. Every reader takes a root folder, for tests."""
