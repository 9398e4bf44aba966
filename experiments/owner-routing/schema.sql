-- A table of accounts, distributed by the key that the runner chooses.
DROP TABLE IF EXISTS accounts;
CREATE TABLE accounts (aid bigint PRIMARY KEY, balance bigint NOT NULL, filler text NOT NULL);
\if :citus
SELECT create_distributed_table('accounts', 'aid');
\endif
INSERT INTO accounts SELECT aid, 0, repeat('x', 80) FROM generate_series(0, :records - 1) AS aid;
VACUUM ANALYZE accounts;
