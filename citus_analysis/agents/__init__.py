"""Read-only tools over datasets for programs that ask, by the Model Context Protocol (`citus-analysis serve --mcp`).

- `tools`: the questions, each with typed arguments, and their answers;
- `answers`: an answer of at most 2 kB, with pages for more;
- `isolation`: a process of its own that computes them, with limits of time and memory;
- `protocol`: the server.
"""
