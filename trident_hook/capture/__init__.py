"""Learning a specialization: delegate a frame to Dynamo, collect graph, guards and bytecode, normalise the graph."""
