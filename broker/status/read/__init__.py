"""Reading the broker's parts for the status page: on the loop, a millisecond at a time."""
