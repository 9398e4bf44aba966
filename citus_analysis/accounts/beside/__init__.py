"""What stands beside an account as an association: measures of nodes, functions, plans, and the spread over shards."""
