"""Variables that Dynamo traces launchers, their hooks and their arguments as."""
