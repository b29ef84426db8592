"""Compares what a specialization did with what the plain function does: results, effects, errors, and the state behind them.

`snapshot` records all that can be reached from some roots, `compare` names the first difference of two such records,
`restore` puts the contents back, `thread_state` does the same for what is no object of the program."""
