-- What an earlier set-up made: HammerDB builds only where its tables are not there.
SET client_min_messages = warning;
DROP TABLE IF EXISTS customer, district, history, item, new_order, order_line, orders, stock, warehouse CASCADE;
DROP ROUTINE IF EXISTS dbms_random, neword, payment, delivery, ostat, slev CASCADE;
