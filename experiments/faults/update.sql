\set key random(1, :records)
\set d random(-5000, 5000)
UPDATE items SET v = v + :d WHERE key = :key;
