-- The tables of pgbench, spread by their keys; rows of a transaction are on several shards.
SELECT create_distributed_table('pgbench_accounts', 'aid', colocate_with => 'none');
SELECT create_distributed_table('pgbench_branches', 'bid');
SELECT create_distributed_table('pgbench_tellers', 'tid');
SELECT create_distributed_table('pgbench_history', 'aid', colocate_with => 'pgbench_accounts');
