-- Events as JSON, an index over their commit messages, and a table of rollups beside them.
SET client_min_messages = warning;
DROP TABLE IF EXISTS github_events, github_rollup;
CREATE EXTENSION IF NOT EXISTS pg_trgm;
CREATE TABLE github_events (
    event_id text DEFAULT md5(random()::text) PRIMARY KEY,
    data jsonb NOT NULL
);
CREATE TABLE github_rollup (
    event_id text,
    created_at timestamptz,
    commits integer,
    messages text
);
\if :citus
SELECT create_distributed_table('github_events', 'event_id');
SELECT create_distributed_table('github_rollup', 'event_id', colocate_with => 'github_events');
\endif
CREATE INDEX github_events_text ON github_events USING gin ((data -> 'payload' ->> 'message') gin_trgm_ops);
