"""Changes to Dynamo that are in force while one of our captures runs."""
