"""`odradek reassign-partitions`: moves between directories, with the options of kafka-reassign-partitions.sh.

What is not here is what takes several brokers: `--generate`, and `--throttle` for the traffic between them. A plan that
names other brokers is sent as it is; brokers that exist may do it.
"""

from __future__ import annotations

from argparse import SUPPRESS, Namespace
from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence

from broker.cli.config_resources import alter
from broker.cli.configs import BROKERS, TOPICS, Entity
from broker.cli.errors import CommandError
from broker.cli.online import add_connection_options, connected
from broker.cli.options import Parser, check_fits, check_one_action, check_required
from broker.cli.output import print_json
from broker.cli.reassignment_plan import Plan, Replica, plan_text, read_plan
from broker.client.client import Client
from broker.client.cluster import TopicPartition
from broker.client.errors import describe
from broker.client.reassignments import reassign, reassignments
from broker.client.replica_log_dirs import Place, move, places
from protocol.errors import ErrorCode

ACTIONS = ("execute", "verify", "cancel", "list", "generate")
LOG_DIR_THROTTLE = "replica.alter.log.dirs.io.max.bytes.per.second"
BROKER_THROTTLES = ["leader.replication.throttled.rate", "follower.replication.throttled.rate", LOG_DIR_THROTTLE]
TOPIC_THROTTLES = ["leader.replication.throttled.replicas", "follower.replication.throttled.replicas"]
FITTING = {
    "reassignment-json-file": ("execute", "verify", "cancel"),
    "replica-alter-log-dirs-throttle": ("execute",),
    "additional": ("execute",),
    "timeout": ("execute", "cancel"),
    "preserve-throttles": ("verify", "cancel"),
}
STARTS_WITHIN_MS = 10_000


def run(arguments: Sequence[str]) -> int:
    """Do what the options say."""
    parser = _parser()
    options = parser.parse_args(arguments)
    action = check_one_action(parser, options, *ACTIONS)
    if action == "generate":
        parser.error("--generate is not supported: with one broker there is nothing to choose from")
    check_fits(parser, options, action, FITTING)
    if options.throttle is not None:
        parser.error("--throttle is not supported: nothing is copied between brokers")
    if action == "list":
        with connected(options) as client:
            _list(client, options)
        return 0
    check_required(parser, options, "reassignment-json-file")
    plan = read_plan(options.reassignment_json_file)
    with connected(options) as client:
        _DOINGS[action](client, plan, options)
    return 0


def _parser() -> Parser:
    parser = Parser("reassign-partitions", "Move partitions between log directories.")
    add_connection_options(parser)
    add = parser.add_argument
    add("--execute", action="store_true", help="begin what the file says")
    add("--verify", action="store_true", help="tell how far it is; lift the limits when all of it is done")
    add("--cancel", action="store_true", help="stop what the file says and is not done; lift the limits")
    add("--list", action="store_true", help="print what is under way between brokers")
    add("--reassignment-json-file", metavar="file", help="the partitions with their brokers and directories")
    add(
        "--replica-alter-log-dirs-throttle",
        type=int,
        metavar="bytes/s",
        help="limit what is copied between directories; --verify or --cancel lift it",
    )
    add("--preserve-throttles", action="store_true", help="leave the limits as they are")
    add("--additional", action="store_true", help="go on though something else is under way")
    add("--timeout", type=int, metavar="ms", help="how long moves may take to begin (default: 10000)")
    add("--generate", action="store_true", help=SUPPRESS)
    add("--throttle", type=int, help=SUPPRESS)
    add("--disallow-replication-factor-change", action="store_true", help=SUPPRESS)
    for name in ("--topics-to-move-json-file", "--broker-list"):
        add(name, help=SUPPRESS)
    add("--disable-rack-aware", action="store_true", help=SUPPRESS)
    return parser


# --- actions


def _execute(client: Client, plan: Plan, options: Namespace) -> None:
    if not options.additional and reassignments(client):
        raise CommandError(
            "Cannot execute because there is an existing partition assignment. "
            "Use --additional to override this and create a new partition assignment in addition to the existing one."
        )
    say = _nothing if options.json else print
    current = _current(client, plan)
    lying = _places(client, [Replica(broker, partition) for partition, ids in current.items() for broker in ids])
    log_dirs = {replica: place.current for replica, place in lying.items()}
    say(f"Current partition replica assignment\n\n{plan_text(current, log_dirs)}\n")
    say("Save this to use as the --reassignment-json-file option during rollback")
    limit = options.replica_alter_log_dirs_throttle
    if limit is not None and limit >= 0:
        say("Warning: You must run --verify periodically, until the reassignment completes,", end=" ")
        say("to ensure the throttle is removed.")
        for broker in sorted({replica.broker for replica in plan.log_dirs}):
            alter(client, [Entity(BROKERS, str(broker))], {LOG_DIR_THROTTLE: str(limit)}, [])
        say(f"The replica-alter-dir throttle limit was set to {limit} B/s")
    _reassign(client, plan.replicas, allows_factor_change=not options.disallow_replication_factor_change)
    started = ",".join(map(str, sorted(plan.replicas)))
    say(f"Successfully started partition reassignment{_s(plan.replicas)} for {started}")
    _start_moves(client, plan.log_dirs, options, say)
    if options.json:
        print_json({"partitions": _names(plan.replicas), "moves": list(map(str, sorted(plan.log_dirs)))})


def _verify(client: Client, plan: Plan, options: Namespace) -> None:
    say = _nothing if options.json else print
    ongoing = reassignments(client)
    current = client.metadata(plan.topics)
    say("Status of partition reassignment:")
    rows = []
    for partition, wanted in sorted(plan.replicas.items()):
        row = current.partition(partition)
        state, text = _assignment_state(partition, wanted, [] if row is None else row.replica_nodes, ongoing)
        say(text)
        rows.append({"topic": partition.topic, "partition": partition.partition, "state": state})
    moves = []
    found = _places(client, plan.log_dirs)
    texts = []
    for replica, target in sorted(plan.log_dirs.items()):
        state, text = _move_state(replica, target, found[replica])
        texts.append(text)
        moves.append({"replica": str(replica), "state": state})
    say("\n".join(texts))
    is_done = not ongoing and not any(place.future for place in found.values())
    if is_done and not options.preserve_throttles:
        _clear_throttles(client, plan, say)
    if options.json:
        print_json({"partitions": rows, "moves": moves, "done": is_done})


def _cancel(client: Client, plan: Plan, options: Namespace) -> None:
    say = _nothing if options.json else print
    active = [partition for partition in reassignments(client) if partition in plan.replicas]
    if active:
        _reassign(client, dict.fromkeys(active))
        names = ",".join(map(str, sorted(active)))
        say(f"Successfully cancelled partition reassignment{_s(active)} for: {names}")
    else:
        say("None of the specified partition reassignments are active.")
    found = _places(client, plan.log_dirs)
    # A move to where the replica is ends the one that is under way.
    moving = {replica: place.current for replica, place in found.items() if place.current and place.future}
    if moving:
        _start_moves(client, moving, options, say)
    else:
        say("None of the specified partition moves are active.", end="")
    if not options.preserve_throttles:
        _clear_throttles(client, plan, say)
    if options.json:
        print_json({"partitions": _names(active), "moves": list(map(str, sorted(moving)))})


def _list(client: Client, options: Namespace) -> None:
    ongoing = reassignments(client)
    if options.json:
        rows = [
            {
                "topic": partition.topic,
                "partition": partition.partition,
                "replicas": row.replicas,
                "adding": row.adding_replicas,
                "removing": row.removing_replicas,
            }
            for partition, row in sorted(ongoing.items())
        ]
        print_json({"reassignments": rows})
        return
    print("Current partition reassignments:" if ongoing else "No partition reassignments found.")
    for partition, row in sorted(ongoing.items()):
        adding = f" adding: {_ids(row.adding_replicas)}." if row.adding_replicas else ""
        removing = f" removing: {_ids(row.removing_replicas)}." if row.removing_replicas else ""
        print(f"{partition}: replicas: {_ids(row.replicas)}.{adding}{removing}")


_DOINGS = {"execute": _execute, "verify": _verify, "cancel": _cancel}


# --- states


def _assignment_state(
    partition: TopicPartition, wanted: list[int], current: list[int], ongoing: Container[TopicPartition]
) -> tuple[str, str]:
    if partition in ongoing:
        return "active", f"Reassignment of partition {partition} is still in progress."
    if current == wanted:
        return "done", f"Reassignment of partition {partition} is completed."
    return (
        "different",
        f"There is no active reassignment of partition {partition}, "
        f"but replica set is {_ids(current)} rather than {_ids(wanted)}.",
    )


def _move_state(replica: Replica, target: str, place: Place) -> tuple[str, str]:
    broker, partition = replica
    if place.current is None:
        return (
            "missing",
            f"Partition {partition} is not found in any live log dir on broker {broker}. "
            "There is likely an offline log directory on the broker.",
        )
    if place.future == target:
        return "active", f"Reassignment of replica {replica} is still in progress."
    if place.future is not None:
        return (
            "elsewhere",
            f"Partition {partition} on broker {broker} is being moved to log dir {place.future} instead of {target}.",
        )
    if place.current == target:
        return "done", f"Reassignment of replica {replica} completed successfully."
    return (
        "none",
        f"Partition {partition} on broker {broker} is not being moved from log dir {place.current} to {target}.",
    )


# --- steps


def _current(client: Client, plan: Plan) -> dict[TopicPartition, list[int]]:
    """Return who has the partitions of a plan. Raises: CommandError for partitions and brokers that do not exist."""
    cluster = client.metadata(plan.topics)
    unknown = {broker for brokers in plan.replicas.values() for broker in brokers} - set(cluster.brokers)
    if unknown:
        raise CommandError(f"Unknown broker id {min(unknown)}")
    current = {}
    missing = []
    for partition in plan.replicas:
        row = cluster.partition(partition)
        if row is None:
            missing.append(partition)
        else:
            current[partition] = list(row.replica_nodes)
    if missing:
        raise CommandError(f"Unable to find partition: {', '.join(map(str, sorted(missing)))}")
    return current


def _reassign(
    client: Client, replicas: Mapping[TopicPartition, list[int] | None], *, allows_factor_change: bool = True
) -> None:
    refused = reassign(client, replicas, allows_factor_change=allows_factor_change)
    if refused:
        reasons = "; ".join(f"{partition}: {reason}" for partition, reason in refused.items())
        raise CommandError(f"Error reassigning partition(s): {reasons}")


def _start_moves(client: Client, log_dirs: Mapping[Replica, str], options: Namespace, say: Callable[..., None]) -> None:
    """Have brokers move replicas; one that a broker does not have yet is asked for again until the time is up."""
    waiting = dict(log_dirs)
    timeout_ms = STARTS_WITHIN_MS if options.timeout is None else options.timeout
    attempts = client.attempts(timeout_ms / 1000)
    while True:
        for broker, partitions in _by_broker(waiting).items():
            for partition, code in move(client, broker, partitions).items():
                replica = Replica(broker, partition)
                if code == ErrorCode.REPLICA_NOT_AVAILABLE:
                    continue
                if code:
                    raise CommandError(f"Failed to alter dir for {replica}: {describe(code)}")
                path = waiting.pop(replica)
                say(
                    f"Successfully started moving log directory to {path} for replica {partition} with broker {broker} "
                )
        if not waiting:
            return
        if not attempts.may_go_on():
            names = ",".join(map(str, sorted(waiting)))
            raise CommandError(f"Timed out before log directory move{_s(waiting)} could be started for: {names}")
        attempts.pause()


def _places(client: Client, replicas: Iterable[Replica]) -> dict[Replica, Place]:
    found = {}
    for broker, partitions in _by_broker(dict.fromkeys(replicas, "")).items():
        for partition, place in places(client, broker, partitions).items():
            found[Replica(broker, partition)] = place
    return found


def _by_broker(log_dirs: Mapping[Replica, str]) -> dict[int, dict[TopicPartition, str]]:
    sorted_out: dict[int, dict[TopicPartition, str]] = {}
    for (broker, partition), path in sorted(log_dirs.items()):
        sorted_out.setdefault(broker, {})[partition] = path
    return sorted_out


def _clear_throttles(client: Client, plan: Plan, say: Callable[..., None]) -> None:
    """Lift all limits: which of them were set for this plan is not written anywhere."""
    brokers = sorted({*client.metadata([]).brokers, *(broker for ids in plan.replicas.values() for broker in ids)})
    say(f"Clearing broker-level throttles on broker{_s(brokers)} {_ids(brokers)}")
    for broker in brokers:
        alter(client, [Entity(BROKERS, str(broker))], {}, BROKER_THROTTLES)
    say(f"Clearing topic-level throttles on topic{_s(plan.topics)} {','.join(plan.topics)}")
    for topic in plan.topics:
        alter(client, [Entity(TOPICS, topic)], {}, TOPIC_THROTTLES)


def _nothing(*_: object, **__: object) -> None:
    """Say nothing: with --json there is one line at the end."""


def _names(partitions: Iterable[TopicPartition]) -> list[str]:
    return list(map(str, sorted(partitions)))


def _ids(brokers: Iterable[int]) -> str:
    return ",".join(map(str, brokers))


def _s(things: Collection[object]) -> str:
    return "" if len(things) == 1 else "s"
