#!/bin/sh
# Start the broker with what a container needs unless the environment says otherwise. Settings come in as KAFKA_*
# variables, as in the official Apache Kafka image; arguments go to `odradek serve` (a properties file, --override ...).
set -eu

: "${KAFKA_LOG_DIRS:=/var/lib/odradek/data}"
: "${KAFKA_LISTENERS:=PLAINTEXT://0.0.0.0:9092}"
: "${KAFKA_ADVERTISED_LISTENERS:=PLAINTEXT://$(hostname):9092}"
: "${KAFKA_ODRADEK_HTTP_LISTENER:=0.0.0.0:9404}"
export KAFKA_LOG_DIRS KAFKA_LISTENERS KAFKA_ADVERTISED_LISTENERS KAFKA_ODRADEK_HTTP_LISTENER

# exec: the broker is process 1 and receives the container's SIGTERM itself.
exec /opt/odradek/bin/odradek serve "$@"
