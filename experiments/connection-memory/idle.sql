-- A session that reads once, and then does nothing.
\set key random(1, 1000)
SELECT count(*) FROM usertable WHERE ycsb_key = 'user' || :key::text;
\sleep 60 s
