-- BenchBase has made and filled TPC-C's tables as local ones; the rows move to the shards.
\if :citus
SET client_min_messages = warning;
-- BenchBase's foreign keys cross shards (history to customer by district, stock to item): they go.
SELECT format('ALTER TABLE %s DROP CONSTRAINT %I', conrelid::regclass, conname)
FROM pg_constraint WHERE contype = 'f' AND connamespace = 'public'::regnamespace \gexec
SELECT create_distributed_table('warehouse', 'w_id');
SELECT create_distributed_table('district', 'd_w_id', colocate_with => 'warehouse');
SELECT create_distributed_table('customer', 'c_w_id', colocate_with => 'warehouse');
SELECT create_distributed_table('history', 'h_w_id', colocate_with => 'warehouse');
SELECT create_distributed_table('new_order', 'no_w_id', colocate_with => 'warehouse');
SELECT create_distributed_table('oorder', 'o_w_id', colocate_with => 'warehouse');
SELECT create_distributed_table('order_line', 'ol_w_id', colocate_with => 'warehouse');
SELECT create_distributed_table('stock', 's_w_id', colocate_with => 'warehouse');
SELECT create_reference_table('item');
SELECT truncate_local_data_after_distributing_table(name)
FROM unnest(ARRAY['warehouse', 'district', 'customer', 'history', 'new_order', 'oorder', 'order_line', 'stock', 'item']::regclass[]) AS name;
\endif
VACUUM ANALYZE;
