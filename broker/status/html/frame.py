"""What is around each page: head, links, the state of the broker, foot."""

from __future__ import annotations

from broker.status.html.markup import Child, Html, element
from broker.status.html.numbers import counted, duration, machine_moment, moment
from broker.status.model import Frame, Health, Level

CONTENT_POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
PAGES = (("/", "Overview"), ("/topics", "Topics"), ("/groups", "Groups"))
NOT_KNOWN = "Known when the broker has started."
_RUNNING = {
    Level.OK: "Running",
    Level.WARN: "Running, with warnings",
    Level.BAD: "Running, with problems",
}
_WORDS = {Level.BAD: "Problem", Level.WARN: "Warning"}


def page(frame: Frame, title: str, current: str, *contents: Child) -> str:
    """Write a whole page. `current` is the path of the page that it belongs to."""
    identity = frame.identity
    is_overview = title == ""
    title = f"{title or headline(frame.health)} · node {identity.node_id} · Odradek"
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("title", title),
        element("link", rel="icon", href="/icon.svg", type="image/svg+xml"),
        element("link", rel="stylesheet", href="/style.css"),
        element("script", src="/live.js", defer=True),
    )
    body = element(
        "body",
        element("a", "Skip to the contents", href="#main", class_="skip"),
        _top(current),
        element(
            "main",
            None if is_overview else _banner(frame.health),
            contents,
            id="main",
            tabindex=-1,
        ),
        _foot(frame),
    )
    return "<!doctype html>\n" + element("html", head, body, lang="en")


def _top(current: str) -> Html:
    links = (
        element("a", name, href=path, aria_current="page" if path == current else None, id=f"to-{name.lower()}")
        for path, name in PAGES
    )
    return element(
        "header",
        element(
            "div",
            element("img", src="/icon.svg", alt="", width=24, height=24),
            element("span", "Odradek", class_="brand"),
            element("nav", links, aria_label="Status pages"),
            element("button", "Pause", type="button", id="pause", hidden=True),
            class_="wide",
        ),
    )


def _foot(frame: Frame) -> Html:
    now_ms = frame.identity.now_ms
    return element(
        "footer",
        element(
            "p",
            "As of ",
            element("time", f"{moment(now_ms)} UTC", datetime=machine_moment(now_ms)),
            element("span", "", id="trouble", role="status"),
            id="as-of",
        ),
        element(
            "p",
            element("a", "Status as JSON", href="/status.json", id="to-json"),
            element("a", "Metrics", href="/metrics", id="to-metrics"),
        ),
        class_="wide",
    )


def headline(health: Health) -> str:
    """Say in a word or two how the broker is."""
    if health.is_ready:
        return _RUNNING[health.level]
    if health.phase.startswith("stop"):
        return "Stopping" if health.phase != "stopped" else "Stopped"
    return "Starting"


def mood(health: Health) -> str:
    """Give the class of a state: what it looks like."""
    return health.level.value if health.is_ready or health.troubles else "starting"


def _banner(health: Health) -> Html | None:
    if health.is_ready and not health.troubles:
        return None
    what = f"{counted(len(health.troubles), 'thing')} to look at" if health.troubles else health.phase
    return element(
        "p",
        element("strong", headline(health)),
        f": {what}. ",
        element("a", "See the overview", href="/", id="to-troubles"),
        class_=f"banner {mood(health)}",
        id="banner",
    )


def health_section(frame: Frame) -> Html:
    """Write how the broker is, what is wrong, and who it is."""
    health, identity = frame.health, frame.identity
    return element(
        "section",
        element("h1", element("span", "", class_="dot", aria_hidden="true"), headline(health), id="state"),
        element("div", _verdict(health), role="status", id="verdict"),
        element(
            "dl",
            _fact("Up for", duration(identity.uptime_seconds)),
            _fact("Node", str(identity.node_id)),
            _fact("Cluster", identity.cluster_id or "not known yet"),
            _fact("Version", f"{identity.version} ({identity.form})"),
            _fact("Listeners", ", ".join(identity.listeners) or "not open yet"),
            class_="facts",
        ),
        class_=f"health {mood(health)}",
        aria_labelledby="state",
        id="health",
    )


def _verdict(health: Health) -> Html:
    if health.troubles:
        return element(
            "ul",
            (
                element(
                    "li",
                    element("strong", f"{_WORDS[trouble.level]}: "),
                    trouble.text,
                    class_=trouble.level.value,
                )
                for trouble in health.troubles
            ),
            class_="troubles",
        )
    if health.is_ready:
        return element("p", "Everything is in order.")
    return element("p", f"Clients are not served now. Step: {health.phase}.")


def _fact(name: str, value: str) -> Html:
    return element("div", element("dt", name), element("dd", value))
