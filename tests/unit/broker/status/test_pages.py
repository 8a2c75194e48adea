"""The pages as a whole, from a request to HTML or JSON."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from broker.coordinator.errors import CoordinatorLoading
from broker.coordinator.group.consumer.group import ConsumerGroup
from broker.coordinator.group.consumer.member import ConsumerMember
from broker.http.server import RefusedRequest, Request, Response
from broker.status.listing import ROWS_PER_PAGE
from config.views import LogConfig
from protocol.records.builder import build_batch
from storage.errors import StorageFailure
from tests.harness.hosted import NOW_MS, OTHER_ID
from tests.harness.status import StatusBed, a_move

HOSTILE = "</td><script>alert('x')</script><img src=x onerror=alert(1)>\"&"
VOID = {"meta", "link", "input", "img"}


class Page(HTMLParser):
    """What a browser makes of a page, in short: its elements, its text, and whether all that was opened is closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attributes: Any) -> None:
        self.elements.append((tag, dict(attributes)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    @property
    def text(self) -> str:
        return " ".join(self.texts).replace("\u00a0", " ")

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]

    def links(self) -> set[str | None]:
        return {attributes["href"] for attributes in self.all("a")}


@pytest.fixture
def bed(tmp_path: Path) -> Iterator[StatusBed]:
    bed = StatusBed(tmp_path / "a", tmp_path / "b")
    bed.parts.lines.open()
    yield bed
    bed.parts.lines.close()


async def ask(bed: StatusBed, path: str, query: str = "", accept: str = "text/html") -> Response:
    return await bed.pages.answer(Request(path, query, accept))


async def page(bed: StatusBed, path: str, query: str = "") -> Page:
    answer = await ask(bed, path, query)
    assert (answer.status, answer.content_type) == ("200 OK", "text/html; charset=utf-8")
    return Page(answer.body.decode())


async def test_an_empty_broker_has_a_page_without_tables_of_nothing(bed: StatusBed) -> None:
    found = await page(bed, "/")
    for text in ("Running", "Everything is in order.", "There are no topics yet.", "There are no groups yet."):
        assert text in found.text
    assert "Nothing since the start." in found.text
    assert "Moves between directories" not in found.text
    assert "Running · node 1 · Odradek" in found.text


async def test_a_broker_with_everything_shows_it(bed: StatusBed) -> None:
    bed.hosted.create("orders", partitions=2).append(build_batch([(None, b"x")] * 5, timestamp=NOW_MS))
    bed.groups.add(ConsumerGroup("billing"), {"orders": {0: 2}})
    bed.moves.append(a_move(bed.hosted))
    bed.retention.to_check_count, bed.retention.checked_count = 10, 5
    for _ in range(3):
        bed.hosted.clock.wall_ms += 5000
        await bed.parts.samples.take()
    logging.getLogger("broker.x").warning("slow disk=%s", "/a")
    found = await page(bed, "/")
    assert {"/topics/orders", "/groups/billing", "/topics", "/groups", "/metrics", "/status.json"} <= found.links()
    for text in (
        "1 topic, 2 partitions",
        "slow disk=/a",
        "Moves between directories",
        "3 connections open, broker 0 % busy",
    ):
        assert text in found.text
    labels = [attributes["aria-label"] for attributes in found.all("progress")]
    assert "25\u00a0% of t-0 copied" in labels
    assert "Retention: 50\u00a0% done" in labels
    assert len([one for one in found.all("svg") if one.get("role") == "img"]) == 5


@pytest.mark.parametrize("path", ["/", "/topics", "/groups", "/topics/orders", "/groups/g"])
async def test_every_page_can_be_found_through_by_headings_landmarks_and_tables(bed: StatusBed, path: str) -> None:
    bed.hosted.create("orders")
    bed.groups.add(ConsumerGroup("g"), {"orders": {0: 0}})
    found = await page(bed, path)
    assert found.all("html") == [{"lang": "en"}]
    assert [len(found.all(tag)) for tag in ("h1", "main", "header", "footer", "title")] == [
        1,
        1,
        1,
        1,
        1 + len([one for one in found.all("svg") if one.get("role") == "img"]),
    ]
    assert found.elements[next(i for i, (tag, _) in enumerate(found.elements) if tag == "a")][1]["href"] == "#main"
    assert len(found.all("caption")) == len(found.all("table")) > 0
    assert all("scope" in head for head in found.all("th"))
    identifiers = [attributes["id"] for _, attributes in found.elements if "id" in attributes]
    assert len(identifiers) == len(set(identifiers))
    named = {attributes[key] for _, attributes in found.elements for key in ("aria-labelledby",) if key in attributes}
    assert named <= set(identifiers)
    assert {attributes.get("for") for attributes in found.all("label")} <= set(identifiers)


async def test_nothing_is_taken_from_elsewhere_or_written_inline(bed: StatusBed) -> None:
    answer = await ask(bed, "/")
    assert "default-src 'none'" in answer.content_policy
    assert "unsafe" not in answer.content_policy
    found = Page(answer.body.decode())
    sources = [attributes.get("src") or attributes.get("href") for _, attributes in found.elements]
    assert all(source is None or source.startswith(("/", "#", "?")) for source in sources)
    for tag, attributes in found.elements:
        assert tag != "style"
        assert not any(name == "style" or name.startswith("on") for name in attributes)
    assert found.all("script") == [{"src": "/live.js", "defer": None}]


async def test_names_that_clients_made_up_are_text_wherever_they_stand(bed: StatusBed) -> None:
    group = ConsumerGroup(HOSTILE)
    group.members["m"] = ConsumerMember(f"m{HOSTILE}", f"i{HOSTILE}", client_id=HOSTILE, client_host=HOSTILE)
    bed.groups.add(group, {HOSTILE: {0: 1}})
    logging.getLogger("broker.x").error("refused client=%s", HOSTILE)
    bed.moves.append(a_move(bed.hosted, failure=HOSTILE))
    overview = await page(bed, "/")
    [link] = [link for link in overview.links() if link and link.startswith("/groups/")]
    pages = [overview, await page(bed, "/groups"), await page(bed, "/groups", "q=%3Cscript%3E"), await page(bed, link)]
    for found in pages:
        assert HOSTILE in found.text
        assert found.all("script") == [{"src": "/live.js", "defer": None}]
        assert [image["src"] for image in found.all("img")] == ["/icon.svg"]
    assert pages[2].all("input")[0]["value"] == "<script>"


async def test_a_group_of_any_name_has_a_page(bed: StatusBed) -> None:
    for name in ("a/b", "..", "?x=1&y", "100%", "ü #", "+ +"):
        bed.groups.add(ConsumerGroup(name))
    for link in (await page(bed, "/groups")).links():
        if link and link.startswith("/groups/"):
            assert (await ask(bed, link)).status == "200 OK"


async def test_what_is_wrong_is_on_every_page(bed: StatusBed) -> None:
    log_dir = bed.hosted.logs.dirs[0]
    bed.hosted.manager.fail_dir(log_dir, StorageFailure("no such device", log_dir.path))
    overview = await page(bed, "/")
    assert f"Problem:  Log directory {log_dir.path} is offline: no such device" in overview.text
    assert "Running, with problems · node 1 · Odradek" in overview.text
    assert "1 thing to look at" in (await page(bed, "/topics")).text


@pytest.mark.parametrize(
    ("phase", "headline"),
    [
        ("log recovery", "Starting"),
        ("listeners", "Starting"),
        ("stopping listeners", "Stopping"),
        ("stopped", "Stopped"),
    ],
)
async def test_a_broker_that_is_not_ready_says_so(bed: StatusBed, phase: str, headline: str) -> None:
    bed.phase.current = phase
    bed.coordinators = None
    found = await page(bed, "/")
    assert f"{headline} · node 1 · Odradek" in found.text
    assert f"Clients are not served now. Step: {phase}." in found.text
    assert "Traffic" not in found.text
    for path in ("/topics", "/groups"):
        found = await page(bed, path)
        assert phase in found.text
        assert "Known when the broker has started." in found.text


async def test_groups_that_cannot_be_told_have_a_reason(bed: StatusBed) -> None:
    bed.groups.partitions["loading"] = 1
    for path in ("/", "/groups"):
        assert "Groups cannot be listed now: they are still loading" in (await page(bed, path)).text
    bed.groups.refusal = CoordinatorLoading("still loading")
    with pytest.raises(RefusedRequest, match="still loading") as refused:
        await ask(bed, "/groups/g")
    assert refused.value.status == "503 Service Unavailable"


@pytest.mark.parametrize(
    ("path", "status"),
    [("/topics/nix", "404 Not Found"), ("/groups/nix", "404 Not Found"), ("/topics/%ff", "400 Bad Request")],
)
async def test_what_is_not_there_is_refused(bed: StatusBed, path: str, status: str) -> None:
    with pytest.raises(RefusedRequest) as refused:
        await ask(bed, path)
    assert refused.value.status == status


async def test_long_lists_are_pages_that_lead_to_each_other(bed: StatusBed) -> None:
    for number in range(ROWS_PER_PAGE + 2):
        bed.groups.add(ConsumerGroup(f"g{number:03}"))
    first = await page(bed, "/groups", "sort=name")
    assert f"{ROWS_PER_PAGE + 2} groups, page 1 of 2" in first.text
    assert "?sort=name&page=2" in first.links()
    second = await page(bed, "/groups", "sort=name&page=2")
    assert {"/groups/g050", "/groups/g051", "?sort=name"} <= second.links()
    found = await page(bed, "/groups", "q=G01&sort=name")
    assert f"10 of {ROWS_PER_PAGE + 2} groups" in found.text
    assert "?q=G01&sort=lag" in found.links()
    assert {"aria-sort": "ascending", "scope": "col"} in found.all("th")
    assert "There is no such group." in (await page(bed, "/groups", "q=nix")).text


async def test_a_topic_without_logs_here_is_shown_as_offline(bed: StatusBed) -> None:
    bed.hosted.create("t", replicas=(OTHER_ID,), leader=OTHER_ID)
    assert "1 offline" in (await page(bed, "/topics")).text
    assert "offline" in (await page(bed, "/topics/t")).text


async def test_what_scheduled_topics_hold_back_is_on_the_page_and_in_what_scripts_get(bed: StatusBed) -> None:
    config = LogConfig(delivery_mode="scheduled", delivery_max_delay_ms=-1)
    bed.hosted.create("t")
    assert "Scheduled delivery" not in (await page(bed, "/")).text
    assert "Held back" not in (await page(bed, "/topics/t")).text
    later = bed.hosted.create("later", partitions=2, config=config)
    for stamp in (NOW_MS + 1_000, NOW_MS + 90_000):
        later.append(build_batch([(None, b"x")] * 600, timestamp=stamp))
    bed.hosted.timers.pass_ms(2_000)
    found = await page(bed, "/")
    held = (
        "Scheduled delivery: 600 records held back in 1 of 2 partitions, the next due in 1 min 28 s; 1 batch released, "
    )
    assert held in found.text
    assert "600 held back" in found.text and "600 held back" in (await page(bed, "/topics")).text
    assert "Log end Held back Next in Segments" in " ".join((await page(bed, "/topics/later")).text.split())
    told = json.loads((await ask(bed, "/status.json")).body)["inventory"]
    schedule = told["schedule"]
    assert (schedule["pending_count"], schedule["holding_count"], schedule["partition_count"]) == (600, 1, 2)
    assert {row["name"]: row["pending_count"] for row in told["topics"]} == {"t": None, "later": 600}
    bed.hosted.manager.get("later", 1).append(build_batch([(None, b"x")], timestamp=2**63 - 1))
    assert "ages" in (await page(bed, "/topics/later")).text


async def test_scripts_get_the_same_as_json(bed: StatusBed) -> None:
    bed.hosted.create("orders").append(build_batch([(None, b"x")] * 5, timestamp=NOW_MS))
    bed.groups.add(ConsumerGroup(HOSTILE), {"orders": {0: 2}})
    for answer in (await ask(bed, "/status.json"), await ask(bed, "/", accept="application/json")):
        assert answer.content_type == "application/json"
        value = json.loads(answer.body)
        assert value["frame"]["health"] == {"is_ready": True, "level": "ok", "phase": "running", "troubles": []}
        assert value["inventory"]["topics"][0]["record_count"] == 5
        assert value["inventory"]["groups"][0] == {
            "group_id": HOSTILE,
            "kind": "consumer",
            "state": "Empty",
            "member_count": 0,
            "partition_count": 1,
            "lag": 3,
        }
    for path in ("/topics", "/groups", "/topics/orders"):
        assert json.loads((await ask(bed, path, accept="application/json")).body)


async def test_style_script_and_icon_are_ours(bed: StatusBed) -> None:
    for path, kind in (("/style.css", "text/css"), ("/live.js", "text/javascript"), ("/icon.svg", "image/svg+xml")):
        answer = await ask(bed, path)
        assert answer.content_type.startswith(kind)
        assert answer.body
