"""Listeners, connections and the outbox: the only code that touches sockets."""
