"""Commands on the cluster: command to records, pure; and the one that runs them."""
