-- sysbench has made and filled sbtest1 as a local table; the rows move to the shards.
\if :citus
SET client_min_messages = warning;
SELECT create_distributed_table('sbtest1', 'id');
SELECT truncate_local_data_after_distributing_table('sbtest1');
\endif
VACUUM ANALYZE sbtest1;
