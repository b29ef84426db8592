"""Dynamo's graph made a host program."""
