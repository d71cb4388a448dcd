"""The command line. Each command is one module, imported only when it is called."""
