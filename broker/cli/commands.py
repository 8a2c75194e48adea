"""The table of commands: name, what `odradek help` says of it, the script it stands for.

A new command is a row here and a module of its name with `run(arguments: Sequence[str]) -> int`, which makes its
parser from `broker.cli.options` and prints through `broker.cli.output`. It is imported only when it is called.
"""

from __future__ import annotations

from typing import NamedTuple


class Command(NamedTuple):
    """One row."""

    name: str
    help: str
    script: str = ""
    """Kafka's script of the same options, if there is one."""

    @property
    def module(self) -> str:
        """Return the module that runs it."""
        return f"broker.cli.{self.name.replace('-', '_')}"


SECTIONS: tuple[tuple[str, tuple[Command, ...]], ...] = (
    (
        "The broker",
        (
            Command("serve", "run the broker in the foreground", "kafka-server-start.sh"),
            Command("config", "print the configuration in force and where each value comes from"),
            Command("storage", "make ids and format log directories", "kafka-storage.sh"),
        ),
    ),
    (
        "A running broker, over the network",
        (
            Command("topics", "list, create, describe, change and delete topics", "kafka-topics.sh"),
            Command("configs", "describe and change configs and quotas", "kafka-configs.sh"),
            Command(
                "groups",
                "list and describe consumer groups; reset their offsets; delete them",
                "kafka-consumer-groups.sh",
            ),
            Command("produce", "send lines to a topic", "kafka-console-producer.sh"),
            Command("consume", "write the records of topics to standard output", "kafka-console-consumer.sh"),
            Command("get-offsets", "print offsets of partitions", "kafka-get-offsets.sh"),
            Command("delete-records", "delete records up to an offset", "kafka-delete-records.sh"),
            Command("reassign-partitions", "move partitions between log directories", "kafka-reassign-partitions.sh"),
            Command("log-dirs", "print what lies in the log directories", "kafka-log-dirs.sh"),
            Command("api-versions", "print which APIs the brokers offer", "kafka-broker-api-versions.sh"),
            Command("cluster", "tell which cluster a broker belongs to", "kafka-cluster.sh"),
        ),
    ),
    (
        "Files of a broker that is stopped, or copies of them",
        (
            Command("dump-log", "show segments, indexes, snapshots, checkpoints", "kafka-dump-log.sh"),
            Command("verify", "find faults in log directories, without writing anything"),
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
