"""A small synchronous client of a Kafka cluster, for tools: blocking sockets, bounded waits, no threads.

`client.Client` finds its way (brokers, leaders, coordinators) and tries again where that helps, `connection.Connection`
is one socket with the versions agreed on. Whatever goes wrong is a `ClientError` whose message is one line for people.
"""
