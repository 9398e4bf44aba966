"""The command line: arguments in, one typed library call, exit code out."""
