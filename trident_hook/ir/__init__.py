"""The data model of a specialization: plain, printable, comparable. Nothing here imports torch at module level."""
