\set hour random(0, 695)
INSERT INTO github_rollup
SELECT event_id, (data ->> 'created_at')::timestamptz, (data -> 'payload' ->> 'size')::integer, data -> 'payload' ->> 'message'
FROM github_events
WHERE data ->> 'type' = 'PushEvent'
  AND (data ->> 'created_at')::timestamptz >= timestamptz '2020-02-01 00:00:00+00' + :hour * interval '1 hour'
  AND (data ->> 'created_at')::timestamptz < timestamptz '2020-02-01 00:00:00+00' + (:hour + 1) * interval '1 hour';
