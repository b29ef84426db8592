"""Two judges over randomized states: Dynamo's own guards, and the plain function."""
