"""Real Prometheus scrapes a real broker: panels have something to show, and rules fire when they must and only then."""

from __future__ import annotations

import math
from functools import partial
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.harness import grafana
from tests.harness.broker import BrokerProcess, reference_wanted
from tests.harness.grafana import Question
from tests.harness.log_dirs import create_in, log_dirs, new_directories
from tests.harness.prometheus_server import Prometheus, promtool
from tests.harness.raw import RawClient
from tests.metrics.conftest import GROUP, RULES, Observed, impatient
from tests.metrics.public import NAMES, PublicName

pytestmark = pytest.mark.skipif(reference_wanted(), reason="scrapes the HTTP page")

RATE_S = 5
VALUES = {"__rate_interval": f"{RATE_S}s", "instance": ".+", "topic": ".+", "group": ".+", "request": ".+"}
# What may have nothing to show on a healthy broker, and why.
EMPTY_WHEN_HEALTHY = {
    ("odradek-overview", "Alerts"): "no alert fires",
}
# Rules that judge the disk and the speed of the machine that the tests run on, whose answer says nothing of the broker.
OF_THE_MACHINE = {
    "OdradekDeliveryLate",
    "OdradekDiskAlmostFull",
    "OdradekDiskFillsSoon",
    "OdradekEventLoopLags",
    "OdradekProducersWaitForDisk",
    "OdradekScrapeSlow",
    "OdradekSlowSync",
    "OdradekSlowProduce",
}


@pytest.mark.parametrize("uid", sorted(grafana.dashboards()))
def test_every_panel_has_something_to_show(observed: Observed, uid: str) -> None:
    empty: list[Question] = []
    for question in grafana.questions():
        if question.dashboard == uid and not is_answered(observed.prometheus, question):
            empty.append(question)
    unexpected = [one for one in empty if (one.dashboard, one.panel) not in EMPTY_WHEN_HEALTHY]
    assert not unexpected, "\n".join(one.expression for one in unexpected)


def is_answered(prometheus: Prometheus, question: Question) -> bool:
    """Ask as Grafana would, and tell whether a number came back."""
    expression = grafana.filled_in(question.expression, VALUES)
    if question.instant:
        values = [one.value for one in prometheus.query(expression)]
    else:
        values = [value for curve in prometheus.curve(expression, RATE_S) for value in curve]
    return any(not math.isnan(value) for value in values)


def test_every_variable_has_values(observed: Observed) -> None:
    for uid, name, query in grafana.variables():
        metric, _, label = query.removeprefix("label_values(").removesuffix(")").rpartition(", ")
        found = observed.prometheus.query(grafana.filled_in(metric, VALUES))
        assert {one.labels.get(label) for one in found} - {None}, (uid, name)
        if name == "group":
            assert GROUP in {one.labels[label] for one in found}


def test_every_rule_is_evaluated_and_none_fires_on_a_healthy_broker(observed: Observed) -> None:
    prometheus = observed.prometheus
    prometheus.wait_until(lambda: "unknown" not in prometheus.alerts().values(), what="all rules are evaluated")
    states = prometheus.alerts()
    assert {name for name, state in states.items() if state != "inactive"} <= OF_THE_MACHINE
    assert states.keys() >= OF_THE_MACHINE


def test_promtool_accepts_the_page_and_finds_no_fault_with_our_own_names(observed: Observed) -> None:
    # 3: the page is well-formed, but names or labels are not what Prometheus recommends: those of Kafka are not.
    said = promtool("check", "metrics", stdin=observed.broker.http_get("/metrics"), expected=(0, 3))
    assert not [line for line in said.splitlines() if line.startswith("odradek_")]


def test_every_public_name_is_there_with_its_labels(observed: Observed) -> None:
    labels: dict[str, set[str]] = {}
    for family in text_string_to_metric_families(observed.broker.http_get("/metrics")):
        for sample in family.samples:
            labels.setdefault(sample.name, set()).update(sample.labels)
    served = [name for name in NAMES if name.served == "yes"]
    missing = {name.metric for name in served} - labels.keys()
    assert not missing
    assert not {name.metric: lacking for name in served if (lacking := set(name.labels) - labels[name.metric])}


def test_every_public_name_that_rules_make_is_there_with_its_labels(observed: Observed) -> None:
    for name in NAMES:
        if name.served == "rule":
            observed.prometheus.wait_until(partial(is_recorded, observed.prometheus, name), what=str(name))


def is_recorded(prometheus: Prometheus, name: PublicName) -> bool:
    """Tell whether Prometheus has series of a name, and with its labels."""
    return any(set(name.labels) <= one.labels.keys() for one in prometheus.query(name.metric))


def test_a_lost_directory_and_a_killed_broker_are_reported(tmp_path: Path) -> None:
    healthy, lost = new_directories(tmp_path, 2)
    broker = BrokerProcess(tmp_path / "broker", log_dirs(healthy, lost))
    prometheus = Prometheus(
        tmp_path / "prometheus", [impatient(RULES, tmp_path)], {"odradek": f"{broker.host}:{broker.http_port}"}
    )
    faults = ("OdradekDown", "OdradekLogDirOffline", "OdradekPartitionsOffline")

    def wait_for(*firing: str) -> None:
        wanted = {name: "firing" if name in firing else "inactive" for name in faults}
        prometheus.wait_until(
            lambda: wanted.items() <= prometheus.alerts().items(), what=f"{firing} fire", timeout_s=60
        )

    broker.start()
    try:
        with RawClient((broker.host, broker.port)) as client:
            create_in(client, "t", healthy, lost)
        prometheus.start()
        prometheus.wait_until(lambda: prometheus.query("up == 1") != [], what="the broker is scraped")
        wait_for()
        broker.stop()
        lost.rename(tmp_path / "away")
        lost.write_bytes(b"not mounted")
        broker.start()
        wait_for("OdradekLogDirOffline", "OdradekPartitionsOffline")
        (told,) = prometheus.annotations("OdradekLogDirOffline")
        assert told["summary"] == f"{lost} of {broker.host}:{broker.http_port} is offline"
        broker.kill()
        wait_for("OdradekDown")
    finally:
        prometheus.stop()
        broker.close()
