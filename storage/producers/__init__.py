"""Producer state: idempotence and open transactions."""
