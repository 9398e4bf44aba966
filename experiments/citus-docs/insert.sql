\set tid random(1, 10)
\set bid random(1, 100)
\set aid random(1, :records)
\set delta random(-5000, 5000)
INSERT INTO history VALUES (:tid, :bid, :aid, :delta, CURRENT_TIMESTAMP);
