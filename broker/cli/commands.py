"""The table of commands: name, what `odradek help` says of it, the module that runs it, the script it stands for.

A new command is a row here and a module with `run(arguments: Sequence[str]) -> int`, which makes its parser from
`broker.cli.options` and prints through `broker.cli.output`. The module is imported only when the command is called.
"""

from __future__ import annotations

from typing import NamedTuple


class Command(NamedTuple):
    """One row."""

    name: str
    help: str
    module: str
    script: str = ""
    """Kafka's script of the same options, if there is one."""


SECTIONS: tuple[tuple[str, tuple[Command, ...]], ...] = (
    (
        "The broker",
        (
            Command("serve", "run the broker in the foreground", "broker.cli.serve", "kafka-server-start.sh"),
            Command(
                "config", "print the configuration in force and where each value comes from", "broker.cli.configuration"
            ),
            Command("storage", "make ids and format log directories", "broker.cli.formatting", "kafka-storage.sh"),
            Command("cluster", "tell which cluster a broker belongs to", "broker.cli.cluster", "kafka-cluster.sh"),
        ),
    ),
    (
        "A running broker, over the network",
        (
            Command(
                "topics", "list, create, describe, change and delete topics", "broker.cli.topics", "kafka-topics.sh"
            ),
            Command("configs", "describe and change configs and quotas", "broker.cli.configs", "kafka-configs.sh"),
            Command("get-offsets", "print offsets of partitions", "broker.cli.get_offsets", "kafka-get-offsets.sh"),
            Command(
                "reassign-partitions",
                "move partitions between log directories",
                "broker.cli.reassign_partitions",
                "kafka-reassign-partitions.sh",
            ),
            Command(
                "delete-records",
                "delete records up to an offset",
                "broker.cli.delete_records",
                "kafka-delete-records.sh",
            ),
            Command("produce", "send lines to a topic", "broker.cli.produce", "kafka-console-producer.sh"),
            Command("log-dirs", "print what lies in the log directories", "broker.cli.log_dirs", "kafka-log-dirs.sh"),
            Command(
                "api-versions",
                "print which APIs the brokers offer",
                "broker.cli.api_versions",
                "kafka-broker-api-versions.sh",
            ),
            Command(
                "groups",
                "list and describe consumer groups; reset their offsets; delete them",
                "broker.cli.groups",
                "kafka-consumer-groups.sh",
            ),
            Command(
                "consume",
                "write the records of topics to standard output",
                "broker.cli.consume",
                "kafka-console-consumer.sh",
            ),
        ),
    ),
    (
        "Files of a broker that is stopped, or copies of them",
        (
            Command(
                "dump-log", "show segments, indexes, snapshots, checkpoints", "broker.cli.dump_log", "kafka-dump-log.sh"
            ),
            Command("verify", "find faults in log directories, without writing anything", "broker.cli.verify"),
        ),
    ),
)
"""The commands in the order in which they are shown."""

COMMANDS = {command.name: command for _, commands in SECTIONS for command in commands}


def overview() -> str:
    """Describe all commands on a page."""
    width = max(map(len, COMMANDS))
    lines = ["usage: odradek <command> [options]", "", "A broker that speaks the Kafka protocol, and tools around it."]
    for title, commands in SECTIONS:
        lines += ["", f"{title}:"]
        for command in commands:
            script = f" ({command.script})" if command.script else ""
            lines.append(f"  {command.name:<{width}}  {command.help}{script}")
    lines += ["", "`odradek <command> --help` explains the options of one; `odradek --version` prints the version.", ""]
    return "\n".join(lines)
