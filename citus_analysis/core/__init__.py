"""Plumbing that every part uses and that knows nothing of benchmarks: texts, files, threads, frames."""
