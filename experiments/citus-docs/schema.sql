-- History without a key for INSERTs, accounts with one for UPDATEs.
DROP TABLE IF EXISTS history, accounts;
CREATE TABLE history (tid int, bid int, aid int, delta int, mtime timestamp);
CREATE TABLE accounts (aid int PRIMARY KEY, bid int, abalance int, filler char(84));
\if :citus
SELECT create_distributed_table('history', 'aid');
SELECT create_distributed_table('accounts', 'aid');
\endif
INSERT INTO accounts SELECT aid, aid % 100, 0, '' FROM generate_series(1, :records) AS aid;
VACUUM ANALYZE accounts;
