"""How far groups are behind, in records and in seconds: looked at when somebody asks, in slices."""
