-- The table of pgbench's history, as in Citus' documentation of ingestion.
DROP TABLE IF EXISTS copied;
CREATE TABLE copied (tid int, bid int, aid int, delta int, mtime timestamp);
\if :citus
SELECT create_distributed_table('copied', 'aid');
\endif
