DROP TABLE IF EXISTS items;
CREATE TABLE items (key bigint, part int NOT NULL, v bigint NOT NULL, filler char(120), PRIMARY KEY (key));
CREATE INDEX ON items (part);
SELECT create_distributed_table('items', 'key');
INSERT INTO items SELECT key, key % 100, 0, '' FROM generate_series(1, :records) AS key;
VACUUM ANALYZE items;
