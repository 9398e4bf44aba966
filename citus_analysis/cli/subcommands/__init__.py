"""The commands, one per module: each checks its arguments, calls the library and returns an exit code."""
