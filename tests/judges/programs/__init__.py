"""The third judge: whole programs. `draft` and `features` write small programs from a seed, `twin` runs each as plain Python
and served, call by call, and compares all that can be seen; `run` does so for as long as it is told."""
