"""What starts the image elsewhere: the compose file and the manifests for Kubernetes agree with it, and among them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from config.build import broker_config, network_config
from config.load import Loaded, load
from tests.harness.broker import ROOT
from tests.harness.machine import is_ci

if not is_ci():
    pytest.importorskip("yaml")
import yaml

DOCKER = ROOT / "docker"
KUBERNETES = DOCKER / "kubernetes"
DEFAULTS = str(DOCKER / "defaults.properties")


def read(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def as_in_the_image(tmp_path: Path, properties: str = "", environment: dict[str, str] | None = None) -> Loaded:
    """Load settings as the image's start script does, which must leave nothing to warn of."""
    path = tmp_path / "server.properties"
    path.write_text(properties, encoding="utf-8")
    loaded = load(str(path), environment or {}, [], defaults_path=DEFAULTS)
    assert loaded.warnings == ()
    return loaded


@pytest.fixture
def manifests() -> dict[str, Any]:
    names = read(KUBERNETES / "kustomization.yaml")["resources"]
    assert sorted(names) == sorted(p.name for p in KUBERNETES.glob("*.yaml") if p.name != "kustomization.yaml")
    return {found["kind"]: found for found in (read(KUBERNETES / name) for name in names)}


@pytest.fixture
def pod(manifests: dict[str, Any]) -> Any:
    return manifests["StatefulSet"]["spec"]["template"]


def test_the_images_defaults_are_a_configuration_by_themselves(tmp_path: Path) -> None:
    resolver = as_in_the_image(tmp_path).resolver
    network, broker = network_config(resolver), broker_config(resolver)
    (listener,), (controller,) = network.listeners, network.controller_listeners
    assert (listener.port, listener.advertised_host, listener.advertised_port) == (9092, "localhost", 9092)
    assert (controller.name, controller.port) == ("CONTROLLER", 9093)
    assert (broker.log_dirs, broker.http_listener) == (("/var/lib/kafka/data",), ("0.0.0.0", 9404))


def test_kubernetes_selectors_find_the_pod(manifests: dict[str, Any], pod: Any) -> None:
    labels = pod["metadata"]["labels"]
    assert manifests["StatefulSet"]["spec"]["selector"]["matchLabels"].items() <= labels.items()
    assert manifests["Service"]["spec"]["selector"].items() <= labels.items()
    monitor = manifests["PodMonitor"]["spec"]
    assert monitor["selector"]["matchLabels"].items() <= labels.items()
    assert labels[monitor["jobLabel"]] == "odradek", "the alert rules look for this job"
    assert manifests["StatefulSet"]["spec"]["serviceName"] == manifests["Service"]["metadata"]["name"]
    assert manifests["Service"]["spec"]["clusterIP"] == "None"


def test_kubernetes_ports_and_probes_are_those_of_the_settings(
    manifests: dict[str, Any], pod: Any, tmp_path: Path
) -> None:
    resolver = as_in_the_image(tmp_path, manifests["ConfigMap"]["data"]["server.properties"]).resolver
    (container,) = pod["spec"]["containers"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    network, broker = network_config(resolver), broker_config(resolver)
    assert broker.http_listener == ("0.0.0.0", ports["http"])
    assert [one.port for one in network.listeners] == [ports["kafka"]]
    assert [one.port for one in network.controller_listeners] == [ports["controller"]]
    assert {port["targetPort"] for port in manifests["Service"]["spec"]["ports"]} <= ports.keys()
    assert {end["port"] for end in manifests["PodMonitor"]["spec"]["podMetricsEndpoints"]} <= ports.keys()
    for probe, path in (("livenessProbe", "/healthz"), ("readinessProbe", "/readyz")):
        assert container[probe]["httpGet"] == {"path": path, "port": "http"}
    assert network.listeners[0].advertised_host == "odradek-0.odradek"


def test_kubernetes_gives_a_stop_its_time_and_data_a_volume(
    manifests: dict[str, Any], pod: Any, tmp_path: Path
) -> None:
    config = broker_config(as_in_the_image(tmp_path, manifests["ConfigMap"]["data"]["server.properties"]).resolver)
    assert pod["spec"]["terminationGracePeriodSeconds"] * 1000 > config.shutdown_timeout_ms
    mounts = {mount["name"]: mount["mountPath"] for mount in pod["spec"]["containers"][0]["volumeMounts"]}
    claims = {claim["metadata"]["name"] for claim in manifests["StatefulSet"]["spec"]["volumeClaimTemplates"]}
    volumes = {volume["name"] for volume in pod["spec"]["volumes"]}
    assert claims == {"data"} and mounts.keys() == claims | volumes
    assert all(path.startswith(mounts["data"] + "/") for path in config.log_dirs), "its root holds lost+found"
    assert mounts["config"] == "/mnt/shared/config"


def test_kubernetes_lets_the_pod_do_nothing_it_need_not(pod: Any) -> None:
    assert pod["spec"]["securityContext"]["runAsNonRoot"]
    assert {pod["spec"]["securityContext"][key] for key in ("runAsUser", "runAsGroup", "fsGroup")} == {1000}
    allowed = pod["spec"]["containers"][0]["securityContext"]
    assert allowed["readOnlyRootFilesystem"] and not allowed["allowPrivilegeEscalation"]
    assert allowed["capabilities"]["drop"] == ["ALL"]


def test_compose_pins_images_and_mounts_what_is_there() -> None:
    compose = read(DOCKER / "compose.yaml")
    for name, service in compose["services"].items():
        assert re.search(r":(dev|v?\d+\.\d+\.\d+)$", service["image"]), name
        for mount in service["volumes"]:
            source = mount.split(":")[0]
            there = (DOCKER / source).exists() if source.startswith(".") else source in compose["volumes"]
            assert there, mount
        assert all(port.startswith("127.0.0.1:") for port in service["ports"])


def test_compose_settings_fit_the_image(tmp_path: Path) -> None:
    service = read(DOCKER / "compose.yaml")["services"]["broker"]
    resolver = as_in_the_image(tmp_path, environment=service["environment"]).resolver
    network, broker = network_config(resolver), broker_config(resolver)
    assert [(one.advertised_host, one.advertised_port) for one in network.listeners] == [
        ("localhost", 9092),
        ("broker", 19092),
    ]
    assert int(service["stop_grace_period"].removesuffix("s")) * 1000 > broker.shutdown_timeout_ms
    published = {int(port.rpartition(":")[2]) for port in service["ports"]}
    assert published == {9092, 9404}
    assert service["healthcheck"]["test"] == ["CMD", "/etc/kafka/docker/healthcheck"]
