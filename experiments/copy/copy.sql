\set QUIET on
\copy (SELECT n % 10, n % 100, n, n % 5000, timestamp '2020-02-01' + n * interval '1 ms' FROM generate_series(1, {records}) AS n) TO '{out}/rows.csv' WITH (FORMAT csv)
\set QUIET off
\timing on
\copy copied FROM '{out}/rows.csv' WITH (FORMAT csv)
