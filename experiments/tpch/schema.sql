-- The tables of TPC-H that the queries read: orders and lineitem by order key, the smaller ones on every node.
SET client_min_messages = warning;
DROP TABLE IF EXISTS region, nation, supplier, customer, part, orders, lineitem CASCADE;
CREATE TABLE region (r_regionkey int PRIMARY KEY, r_name char(25) NOT NULL);
CREATE TABLE nation (n_nationkey int PRIMARY KEY, n_name char(25) NOT NULL, n_regionkey int NOT NULL);
CREATE TABLE supplier (s_suppkey int PRIMARY KEY, s_name char(25) NOT NULL, s_nationkey int NOT NULL);
CREATE TABLE customer (
    c_custkey int PRIMARY KEY, c_name varchar(25) NOT NULL, c_address varchar(40) NOT NULL, c_nationkey int NOT NULL,
    c_phone char(15) NOT NULL, c_acctbal numeric(15, 2) NOT NULL, c_mktsegment char(10) NOT NULL,
    c_comment varchar(117) NOT NULL
);
CREATE TABLE part (
    p_partkey int PRIMARY KEY, p_brand char(10) NOT NULL, p_type varchar(25) NOT NULL, p_size int NOT NULL,
    p_container char(10) NOT NULL
);
CREATE TABLE orders (
    o_orderkey bigint PRIMARY KEY, o_custkey int NOT NULL, o_orderstatus char(1) NOT NULL,
    o_totalprice numeric(15, 2) NOT NULL, o_orderdate date NOT NULL, o_orderpriority char(15) NOT NULL,
    o_shippriority int NOT NULL
);
CREATE TABLE lineitem (
    l_orderkey bigint, l_partkey int NOT NULL, l_suppkey int NOT NULL, l_linenumber int,
    l_quantity numeric(15, 2) NOT NULL, l_extendedprice numeric(15, 2) NOT NULL, l_discount numeric(15, 2) NOT NULL,
    l_tax numeric(15, 2) NOT NULL, l_returnflag char(1) NOT NULL, l_linestatus char(1) NOT NULL,
    l_shipdate date NOT NULL, l_commitdate date NOT NULL, l_receiptdate date NOT NULL, l_shipinstruct char(25) NOT NULL,
    l_shipmode char(10) NOT NULL, PRIMARY KEY (l_orderkey, l_linenumber)
);
\if :citus
SELECT create_reference_table(name) FROM unnest(ARRAY['region', 'nation', 'supplier', 'customer', 'part']) AS name;
SELECT create_distributed_table('orders', 'o_orderkey');
SELECT create_distributed_table('lineitem', 'l_orderkey', colocate_with => 'orders');
\endif
