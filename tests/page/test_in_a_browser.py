"""The status page in headless Chromium: what is seen, heard and reached, and that it is true."""

from __future__ import annotations

import re
import urllib.error
from pathlib import Path
from urllib.parse import quote

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from tests.harness.broker import BrokerProcess
from tests.harness.chromium import Chromium
from tests.harness.held_file import environment_that_holds
from tests.page.conftest import HELD_BACK, HOSTILE_GROUP, RECORDS, SCHEDULED, address
from tests.page.looking import FOCUSED, REACHABLE, TEXTS, TOO_WIDE, contrast, table, text

PAGES = ("/", "/topics", "/groups", "/topics/orders", "/topics/reminders", "/groups/billing")
LOOK_NOW = "document.dispatchEvent(new Event('visibilitychange'))"
PHONE = {"width": 360, "height": 740}


@pytest.fixture(autouse=True)
def usual_window(browser: Chromium) -> None:
    browser.look()


@pytest.mark.parametrize("path", PAGES)
def test_a_page_loads_without_complaints_and_asks_nobody_else(browser: Chromium, url: str, path: str) -> None:
    browser.open(url + path)
    assert browser.complaints() == []
    assert {one.removeprefix(url) for one in browser.requested(url + path)} == {
        path,
        "/style.css",
        "/live.js",
        "/icon.svg",
    }
    assert len(browser.run("document.styleSheets[0].cssRules")) > 20
    assert browser.run("document.querySelectorAll('h1').length") == 1


def test_numbers_are_those_that_the_admin_api_tells(browser: Chromium, url: str, busy_broker: BrokerProcess) -> None:
    admin = AdminClient({"bootstrap.servers": busy_broker.bootstrap})
    ends = {
        partition: admin.list_offsets({TopicPartition("orders", partition): OffsetSpec.latest()})
        for partition in range(3)
    }
    end_of = {number: next(iter(one.values())).result(10).offset for number, one in ends.items()}
    browser.open(url + "/topics")
    topics = table(browser, "topics")
    described = admin.list_topics(timeout=10).topics
    assert topics.keys() == described.keys()
    for name, count in RECORDS.items():
        assert topics[name]["Records"] == str(count)
        assert topics[name]["Partitions"] == str(len(described[name].partitions))
    browser.open(url + "/topics/orders")
    rows = table(browser, "partitions")
    assert {int(number): int(row["Log end"]) for number, row in rows.items()} == end_of
    assert sum(end_of.values()) == RECORDS["orders"]
    sizes = sum(path.stat().st_size for path in Path(busy_broker.directory).glob("d?/orders-*/*.log"))
    browser.open(url + "/topics?q=order")
    assert table(browser, "topics")["orders"]["Size"] == f"{sizes / 1024:.1f}\u00a0KiB"


def test_groups_have_the_state_and_lag_that_the_admin_api_tells(
    browser: Chromium, url: str, busy_broker: BrokerProcess
) -> None:
    admin = AdminClient({"bootstrap.servers": busy_broker.bootstrap})
    listed = {one.group_id: one.state.name.capitalize() for one in admin.list_consumer_groups().result(10).valid}
    browser.open(url + "/groups")
    groups = table(browser, "groups")
    assert {name: row["State"] for name, row in groups.items()} == listed
    assert {name: row["Lag"] for name, row in groups.items()} == {"billing": "90", HOSTILE_GROUP: "270"}
    browser.open(url + "/groups/billing")
    assert "Nobody is in the group." in text(browser)
    assert browser.run("document.querySelectorAll('#offsets-table tbody tr').length") == 3


def test_what_a_scheduled_topic_holds_back_is_told_where_topics_are(browser: Chromium, url: str) -> None:
    browser.open(url)
    said = rf"Scheduled delivery: {HELD_BACK} records held back in 1 of 2 partitions, the next due in [1-5]?\d min "
    assert re.match(said, text(browser, "#scheduled"))
    browser.open(f"{url}/topics/{SCHEDULED}")
    rows = table(browser, "partitions")
    assert {number: row["Held back"] for number, row in rows.items()} == {"0": str(HELD_BACK), "1": "0"}
    assert re.match(r"[1-5]?\d\smin\s", rows["0"]["Next in"]) and rows["1"]["Next in"] == "\u2013"


def test_a_group_with_a_hostile_name_is_text(browser: Chromium, url: str) -> None:
    for path in ("/", "/groups", f"/groups/{quote(HOSTILE_GROUP, safe='')}"):
        browser.open(url + path)
        assert HOSTILE_GROUP in text(browser)
        assert "hacked" not in browser.run("document.title").replace(HOSTILE_GROUP, "")
        assert browser.run("document.querySelectorAll('script').length") == 1
        assert browser.complaints() == []
    browser.open(url + "/groups")
    browser.run("[...document.querySelectorAll('tbody a')].find(one => one.textContent.includes('script')).click()")
    browser.wait(lambda: text(browser, "h1") == HOSTILE_GROUP, "page of the group")


@pytest.mark.parametrize("path", PAGES)
def test_the_keyboard_reaches_everything_and_the_focus_is_seen(browser: Chromium, url: str, path: str) -> None:
    browser.open(url + path)
    browser.run("document.getElementById('pause').click(); document.activeElement.blur()")
    reachable = browser.run(REACHABLE)
    reached = []
    for _ in range(len(reachable)):
        browser.press("Tab")
        focused = browser.run(FOCUSED)
        assert focused is not None
        assert focused["ring"] and focused["seen"], focused
        reached.append(focused["number"])
    assert reached == reachable  # each of them, in the order in which they stand


def test_the_skip_link_leads_past_the_head(browser: Chromium, url: str) -> None:
    browser.open(url)
    browser.press("Tab")
    assert browser.run("document.activeElement.textContent") == "Skip to the contents"
    browser.press("Enter")
    browser.wait(lambda: browser.run("document.activeElement.id") == "main", "focus on the contents")


@pytest.mark.parametrize("path", PAGES)
def test_on_a_phone_only_tables_scroll_sideways(browser: Chromium, url: str, path: str) -> None:
    browser.look(**PHONE)
    browser.open(url + path)
    assert browser.run("document.documentElement.scrollWidth") == PHONE["width"]
    assert browser.run(TOO_WIDE) == []
    assert browser.run("parseFloat(getComputedStyle(document.body).fontSize)") >= 15


@pytest.mark.parametrize("path", PAGES)
def test_all_text_can_be_read_in_light_and_in_dark(browser: Chromium, url: str, path: str) -> None:
    behind = set()
    for dark in (False, True):
        browser.look(dark=dark)
        browser.open(url + path)
        texts = browser.run(TEXTS)
        assert len(texts) > 10
        for words, front, back in texts:
            assert contrast(front, back) >= 4.5, (words, front, back)
        behind.add(browser.run("getComputedStyle(document.body).backgroundColor"))
    assert len(behind) == 2


def test_without_scripts_everything_is_there(browser: Chromium, url: str) -> None:
    browser.open(url, scripts=False)
    try:
        assert table_is_there(browser)
    finally:
        browser.call("Emulation.setScriptExecutionDisabled", value=False)


def table_is_there(browser: Chromium) -> bool:
    """Tell it without running anything in the page."""
    document = browser.call("DOM.getDocument")["root"]["nodeId"]
    row = browser.call("DOM.querySelector", nodeId=document, selector="#topics-table tbody tr")["nodeId"]
    button = browser.call("DOM.querySelector", nodeId=document, selector="#pause[hidden]")["nodeId"]
    return bool(row and button)


def test_on_paper_there_is_what_can_be_read_there(browser: Chromium, url: str) -> None:
    browser.look(print_media=True)
    browser.open(url)
    assert not browser.run("document.querySelector('nav').checkVisibility()")
    assert browser.run("document.querySelector('#topics-table').checkVisibility()")


# --- pages that go on ---


def test_the_page_follows_the_broker_and_leaves_the_reader_in_place(
    browser: Chromium, quiet_broker: BrokerProcess
) -> None:
    quiet_broker.start()
    admin = AdminClient({"bootstrap.servers": quiet_broker.bootstrap})
    admin.create_topics([NewTopic("first", 1, 1)])["first"].result(10)
    browser.look(width=800, height=400)
    browser.open(address(quiet_broker))
    browser.run("document.getElementById('all-topics').focus(); window.isTheSame = true")
    before = browser.run("scrollY")
    assert before > 0
    admin.create_topics([NewTopic("second", 1, 1)])["second"].result(10)
    browser.wait(lambda: "second" in text(browser, "#topics"), "new topic")  # the page has asked by itself
    assert browser.run("[isTheSame, document.activeElement.id, scrollY]") == [True, "all-topics", before]
    assert browser.complaints() == []
    quiet_broker.stop()
    browser.run(LOOK_NOW)
    browser.wait(lambda: "The broker does not answer." in text(browser, "footer"), "word of the end")
    quiet_broker.start()
    browser.run(LOOK_NOW)
    browser.wait(lambda: "does not answer" not in text(browser, "footer"), "word of the start")


def test_who_pauses_the_page_has_it_stand_still(browser: Chromium, url: str) -> None:
    browser.open(url)
    browser.run("window.fetch = () => { window.hasAsked = true; return new Promise(() => {}); }")
    browser.run("document.getElementById('pause').click()")
    assert text(browser, "#pause") == "Resume"
    browser.run(LOOK_NOW)
    assert not browser.run("window.hasAsked ?? false")
    browser.run("document.getElementById('pause').click()")
    assert browser.run("window.hasAsked")
    assert text(browser, "#pause") == "Pause"


# --- brokers that are not well ---


def test_a_directory_that_is_gone_is_told_in_words(browser: Chromium, quiet_broker: BrokerProcess) -> None:
    quiet_broker.start()
    admin = AdminClient({"bootstrap.servers": quiet_broker.bootstrap})
    admin.create_topics([NewTopic("t", 4, 1)])["t"].result(10)
    lost = quiet_broker.log_directories[1]
    lost.rename(lost.with_suffix(".gone"))

    def is_told() -> bool:
        browser.open(address(quiet_broker))
        return "cannot be served" in text(browser, "#verdict") and "2 offline" in text(browser, "#topics")

    browser.wait(is_told, "word of the directory and of what was in it")
    verdict = text(browser, "#verdict")
    assert f"Log directory {lost} is offline: log directory {lost} was removed or replaced" in verdict
    assert "2 partitions cannot be served: their logs are not here." in verdict
    assert "Problem:" in verdict
    assert table(browser, "dirs")[str(lost)]["State"] == "offline"
    assert "log directory offline" in text(browser, "#log")
    browser.open(address(quiet_broker) + "/groups")
    assert "things to look at" in text(browser, "#banner")


def test_while_the_broker_starts_it_says_how_far_it_is(browser: Chromium, quiet_broker: BrokerProcess) -> None:
    quiet_broker.properties["num.recovery.threads.per.data.dir"] = "1"
    quiet_broker.properties["log.dirs"] = f"{quiet_broker.directory}/d1"
    quiet_broker.start()
    admin = AdminClient({"bootstrap.servers": quiet_broker.bootstrap})
    admin.create_topics([NewTopic("t", 8, 1)])["t"].result(10)
    producer = Producer({"bootstrap.servers": quiet_broker.bootstrap})
    producer.produce("t", b"x", partition=5)
    assert producer.flush(10) == 0
    quiet_broker.stop()
    held = quiet_broker.log_directories[0] / "t-5" / "leader-epoch-checkpoint"
    quiet_broker.environment = environment_that_holds(held, quiet_broker.directory / "shim")
    quiet_broker.launch()

    def is_loading() -> bool:
        try:
            browser.open(address(quiet_broker))
        except AssertionError:
            return False  # the port is not open yet
        return "log recovery" in text(browser, "#verdict")

    browser.wait(is_loading, "page of a start")
    assert text(browser, "h1") == "Starting"
    assert "Clients are not served now. Step: log recovery." in text(browser)
    assert re.search(r"d1: \d of 8 logs", table(browser, "work")["Loading logs"]["Details"])
    assert browser.run("document.querySelector('#work progress').value") < 1
    assert browser.complaints() == []
    quiet_broker.kill()


def test_the_page_is_off_with_one_key(quiet_broker: BrokerProcess) -> None:
    quiet_broker.properties["odradek.http.status.page"] = "false"
    quiet_broker.start()
    for path in ("/", "/topics", "/status.json", "/style.css"):
        with pytest.raises(urllib.error.HTTPError) as refused:
            quiet_broker.http_get(path)
        assert (refused.value.code, refused.value.read()) == (404, b"try /metrics, /healthz or /readyz\n")
    assert quiet_broker.http_get("/healthz") == "ok\n"


def test_sparklines_and_bars_say_in_words_what_they_show(browser: Chromium, url: str) -> None:
    browser.open(url)
    browser.wait(lambda: _reloaded_with_samples(browser, url), "two samples")
    names = [re.sub(r"\s+", " ", name) for name in browser.run(_NAMES % "svg[role=img]")]
    assert len(names) == 5
    assert all(re.fullmatch(r".+ over the last \d+ s: now .+/s, between .+/s and .+/s", name) for name in names)
    assert all("of the file system used" in name for name in browser.run(_NAMES % "#dirs progress"))


_NAMES = "[...document.querySelectorAll('%s')].map(one => one.getAttribute('aria-label'))"


def _reloaded_with_samples(browser: Chromium, url: str) -> bool:
    browser.open(url)
    return bool(browser.run("document.querySelectorAll('svg[role=img]').length"))
