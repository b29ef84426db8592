"""What a miss was about, in words that people understand, without running the program's code."""
