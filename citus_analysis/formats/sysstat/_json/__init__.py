"""Times and rows of the JSON documents of sysstat."""
