"""How a broker lives in somebody else's program: as a child process, or in a thread."""
