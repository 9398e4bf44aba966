\set part random(0, 499)
SELECT count(*), sum(v) FROM items WHERE part = :part;
