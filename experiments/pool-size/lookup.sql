\set value random(0, 999)
SELECT count(*) FROM lookups WHERE value = :value;
