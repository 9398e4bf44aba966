"""Helpers for files, threads, frames and display for all other parts; none depends on benchmarks."""
