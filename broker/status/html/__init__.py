"""The status page as HTML: pure functions from its model to text."""
