"""Load generators: pgbench and YCSB."""
