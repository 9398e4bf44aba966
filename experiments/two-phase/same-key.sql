\set key random(1, :records)
\set d random(-5000, 5000)
BEGIN;
UPDATE a1 SET v = v + :d WHERE key = :key;
UPDATE a2 SET v = v - :d WHERE key = :key;
COMMIT;
