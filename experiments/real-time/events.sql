-- :records events of February 2020; one in a hundred speaks of postgres.
INSERT INTO github_events
SELECT
    md5(number::text),
    jsonb_build_object(
        'type', (ARRAY['PushEvent', 'IssuesEvent', 'WatchEvent', 'PullRequestEvent'])[1 + number % 4],
        'created_at', timestamptz '2020-02-01 00:00:00+00' + number % 2505600 * interval '1 second',
        'actor', 'user' || number % 100000,
        'payload', jsonb_build_object(
            'size', 1 + number % 7,
            'message', md5(number::text) || CASE WHEN number % 100 = 0 THEN ' postgres ' ELSE ' other ' END
                || md5((number * 31)::text)
        )
    )
FROM generate_series(1, :records::bigint) AS number;
VACUUM ANALYZE github_events;
