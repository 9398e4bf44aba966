-- 20 customers with 10,000 orders each; on Citus all orders of a customer are in one shard.
DROP TABLE IF EXISTS orders;
CREATE TABLE orders (customer int NOT NULL, number int NOT NULL, amount int NOT NULL, PRIMARY KEY (customer, number));
\if :citus
SELECT create_distributed_table('orders', 'customer');
\endif
INSERT INTO orders
SELECT customer, number, number % 97 FROM generate_series(1, 20) AS customer, generate_series(1, 10000) AS number;
VACUUM ANALYZE orders;
