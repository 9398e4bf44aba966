"""Plans of statements, as `EXPLAIN` prints them."""
