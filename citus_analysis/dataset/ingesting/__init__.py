"""Read source files in parallel, write their tables part by part, and compute derived tables."""
