"""One module a command: arguments in, one library call, exit code out."""
