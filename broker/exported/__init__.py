"""Where each row of the metrics catalog is read from in this broker."""
