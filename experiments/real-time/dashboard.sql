SELECT (data ->> 'created_at')::timestamptz::date AS day, sum((data -> 'payload' ->> 'size')::integer) AS commits
FROM github_events
WHERE data -> 'payload' ->> 'message' ILIKE '%postgres%'
GROUP BY day
ORDER BY day;
