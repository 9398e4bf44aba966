"""Helpers for files, threads, frames and display that every part uses; none depends on benchmarks."""
