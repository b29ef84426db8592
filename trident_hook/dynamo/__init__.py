"""The room that knows Dynamo from inside: what is recorded of it, what it is taught, what it does not see."""
