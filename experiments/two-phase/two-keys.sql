\set key1 random(1, :records)
\set key2 random(1, :records)
\set d random(-5000, 5000)
BEGIN;
UPDATE a1 SET v = v + :d WHERE key = :key1;
UPDATE a2 SET v = v - :d WHERE key = :key2;
COMMIT;
