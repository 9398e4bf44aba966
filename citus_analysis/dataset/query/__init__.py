"""Tables of a dataset as frames, and SQL over them."""
