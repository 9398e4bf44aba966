-- The table of https://github.com/citusdata/citus/issues/5134.
DROP TABLE IF EXISTS lookups;
CREATE TABLE lookups (key int PRIMARY KEY, value int);
SELECT create_distributed_table('lookups', 'key', shard_count := 32);
INSERT INTO lookups SELECT i, i % 1000 FROM generate_series(1, :records) AS i;
CREATE INDEX lookups_value ON lookups (value);
ANALYZE lookups;
