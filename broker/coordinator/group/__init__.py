"""Group kinds and their offsets."""
