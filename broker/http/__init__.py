"""The HTTP port: a small server, and the pages of it that need nothing but a word of the broker."""
