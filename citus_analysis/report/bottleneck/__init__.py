"""The report `bottleneck`: its sentences and tables, and predictions, which `scalability` shows too."""
