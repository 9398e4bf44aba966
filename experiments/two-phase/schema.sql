-- Two co-located tables, each row about 125 bytes.
DROP TABLE IF EXISTS a1, a2;
CREATE TABLE a1 (key bigint PRIMARY KEY, v bigint NOT NULL, filler char(84));
CREATE TABLE a2 (key bigint PRIMARY KEY, v bigint NOT NULL, filler char(84));
\if :citus
SELECT create_distributed_table('a1', 'key');
SELECT create_distributed_table('a2', 'key', colocate_with => 'a1');
\endif
INSERT INTO a1 SELECT key, 0, '' FROM generate_series(1, :records) AS key;
INSERT INTO a2 SELECT key, 0, '' FROM generate_series(1, :records) AS key;
VACUUM ANALYZE a1, a2;
