"""Dynamo's guards, and those that it does not make, as guards of a specialization."""
