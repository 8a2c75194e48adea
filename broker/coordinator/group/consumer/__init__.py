"""Groups of the consumer protocol (KIP-848): the broker assigns, and every member converges on its own."""
