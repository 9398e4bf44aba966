"""Find source files, and determine the resource, run and node that each belongs to."""
