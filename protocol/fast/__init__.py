"""Hand-written twins for what is hottest, proven equal to the declarations by tests."""
