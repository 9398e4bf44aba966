-- go-tpc has made and filled TPC-C's tables as local ones; the rows move to the shards.
\if :citus
SET client_min_messages = warning;
SELECT create_distributed_table('warehouse', 'w_id');
SELECT create_distributed_table('district', 'd_w_id', colocate_with => 'warehouse');
SELECT create_distributed_table('customer', 'c_w_id', colocate_with => 'warehouse');
SELECT create_distributed_table('history', 'h_w_id', colocate_with => 'warehouse');
SELECT create_distributed_table('new_order', 'no_w_id', colocate_with => 'warehouse');
SELECT create_distributed_table('orders', 'o_w_id', colocate_with => 'warehouse');
SELECT create_distributed_table('order_line', 'ol_w_id', colocate_with => 'warehouse');
SELECT create_distributed_table('stock', 's_w_id', colocate_with => 'warehouse');
SELECT create_reference_table('item');
SELECT truncate_local_data_after_distributing_table(name)
FROM unnest(ARRAY['warehouse', 'district', 'customer', 'history', 'new_order', 'orders', 'order_line', 'stock', 'item']::regclass[]) AS name;
\endif
VACUUM ANALYZE;
