-- An application that works 2 ms between two questions, of which most are small and few are large.
\set customer random(1, 20)
\set orders random_exponential(1, 10000, 5)
\sleep 2 ms
SELECT sum(amount) FROM orders WHERE customer = :customer AND number <= :orders;
