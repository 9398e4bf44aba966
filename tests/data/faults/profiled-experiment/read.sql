\set key random(1, :records)
SELECT v FROM items WHERE key = :key;
