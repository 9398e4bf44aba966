"""Output of load generators, such as YCSB, pgbench, sysbench and HammerDB."""
