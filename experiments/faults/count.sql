\set part random(0, 99)
SELECT count(*), sum(v) FROM items WHERE part = :part;
