DROP TABLE IF EXISTS items;
CREATE TABLE items (key bigint PRIMARY KEY, part int NOT NULL, v bigint NOT NULL, filler char(80));
CREATE INDEX ON items (part);
INSERT INTO items SELECT key, key % 500, 0, '' FROM generate_series(1, :records) AS key;
VACUUM ANALYZE items;
