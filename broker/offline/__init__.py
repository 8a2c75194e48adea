"""What reads the files of a broker that is stopped, or a copy of them: `dump` shows them, `verify` looks for faults.

Nothing here writes, and nothing knows the rest of the broker: storage and protocol are all it stands on.
"""
