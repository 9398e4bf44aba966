SELECT sum(i) FROM generate_series(1, 4000) AS i;
