"""What traces say: profiles, composition of response times, tails."""
