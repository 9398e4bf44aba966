"""Values that a column can have at all, and the values of a row that cannot be."""
