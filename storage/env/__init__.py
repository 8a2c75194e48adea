"""The world behind interfaces: files, clock, randomness."""
