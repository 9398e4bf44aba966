"""Load generators: YCSB, go-ycsb and pgbench."""
