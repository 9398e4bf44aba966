"""Statistics of benchmark results: arrays in, frozen results out."""
