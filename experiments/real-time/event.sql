\set number random(1, 1000000000)
INSERT INTO github_events (event_id, data) VALUES (
    md5(random()::text || ':client_id:number'),
    jsonb_build_object('type', 'PushEvent', 'created_at', now(), 'actor', 'user:number',
        'payload', jsonb_build_object('size', 1, 'message', 'one more commit of postgres')));
