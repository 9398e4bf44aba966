\set key random(1, :records)
UPDATE items SET v = v + 1 WHERE key = :key;
