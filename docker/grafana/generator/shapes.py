"""What a dashboard is made of, and the JSON that Grafana wants for it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

SCHEMA_VERSION = 39  # Grafana 10 and later
COLUMNS = 24
SOURCE = {"type": "prometheus", "uid": "${datasource}"}
CHOSEN = ('job="odradek"', 'instance=~"$instance"')
GREEN, YELLOW, RED = "green", "yellow", "red"

Json = dict[str, Any]


@dataclass(frozen=True)
class Query:
    """An expression and what its series are called."""

    expr: str
    legend: str = ""
    # A table and the like want the values of now, a curve those of the time that is shown.
    instant: bool = False
    form: str = "time_series"


@dataclass(frozen=True)
class Panel:
    """One picture; its kind is a panel type of Grafana."""

    title: str
    help: str
    queries: tuple[Query, ...]
    unit: str = "short"
    kind: str = "timeseries"
    width: int = 8
    height: int = 7
    # From which value on which colour; below the first it is green.
    thresholds: tuple[tuple[float, str], ...] = ()
    texts: Mapping[float, str] = field(default_factory=dict)
    stacked: bool = False
    max: float | None = None
    # Of a table: labels and values in their order, with the names and units of the columns.
    columns: tuple[tuple[str, str, str], ...] = ()
    # Of a stat whose text is a label.
    text_of_label: bool = False


@dataclass(frozen=True)
class Row:
    """A heading and the panels below it, from left to right."""

    title: str
    panels: tuple[Panel, ...]


@dataclass(frozen=True)
class Variable:
    """A choice at the head of a dashboard: the values of a label."""

    name: str
    metric: str
    label: str
    title: str


@dataclass(frozen=True)
class Dashboard:
    """One page."""

    uid: str
    title: str
    help: str
    rows: tuple[Row, ...]
    variables: tuple[Variable, ...] = ()


INSTANCE = Variable("instance", 'kafka_server_kafkaserver_brokerstate{job="odradek"}', "instance", "Broker")


def curves(title: str, help: str, *queries: tuple[str, str], **more: Any) -> Panel:
    """Make a panel of curves from pairs of an expression and a legend."""
    return Panel(title, help, tuple(Query(expr, legend) for expr, legend in queries), **more)


def stat(title: str, help: str, expr: str, **more: Any) -> Panel:
    """Make a panel that shows one number in large."""
    more = {"width": 4, "height": 4, **more}
    return Panel(title, help, (Query(expr, more.pop("legend", ""), instant=True),), kind="stat", **more)


def table(title: str, help: str, columns: Sequence[tuple[str, str, str]], *exprs: str, **more: Any) -> Panel:
    """Make a table: one row for each set of labels, one column for each expression."""
    queries = tuple(Query(expr, instant=True, form="table") for expr in exprs)
    return Panel(title, help, queries, kind="table", columns=tuple(columns), **{"width": 24, "height": 8, **more})


def quantiles(histogram: str, *labels: str, by: str = "", legend: str = "") -> tuple[tuple[str, str], ...]:
    """Give the queries of median and 99th percentile of a histogram, each with a legend."""
    grouping = f"le, {by}" if by else "le"
    buckets = f"sum by ({grouping}) ({per_second(f'{histogram}_bucket', *labels)})"
    return tuple(
        (f"histogram_quantile({quantile}, {buckets})", f"{legend}{name}")
        for quantile, name in ((0.5, "p50"), (0.99, "p99"))
    )


def of(metric: str, *labels: str) -> str:
    """Give a metric of the chosen brokers; labels choose among its series."""
    return f"{metric}{{{', '.join((*CHOSEN, *labels))}}}"


def per_second(metric: str, *labels: str) -> str:
    """Give how fast a counter of the chosen brokers grows."""
    return f"rate({of(metric, *labels)}[$__rate_interval])"


def render(board: Dashboard) -> Json:
    """Return the model of a dashboard."""
    variables = (INSTANCE, *board.variables)
    return {
        "uid": board.uid,
        "title": board.title,
        "description": board.help,
        "tags": ["kafka", "odradek"],
        "schemaVersion": SCHEMA_VERSION,
        "version": 1,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "timezone": "",
        "annotations": {"list": []},
        "links": [
            {
                "type": "dashboards",
                "title": "Odradek",
                "tags": ["odradek"],
                "asDropdown": True,
                "includeVars": True,
                "keepTime": True,
            }
        ],
        "templating": {"list": [_source_variable(), *map(_variable, variables)]},
        "panels": list(_placed(board.rows)),
    }


def _source_variable() -> Json:
    return {
        "name": "datasource",
        "label": "Prometheus",
        "type": "datasource",
        "query": "prometheus",
        "current": {},
        "hide": 0,
        "refresh": 1,
    }


def _variable(one: Variable) -> Json:
    query = f"label_values({one.metric}, {one.label})"
    return {
        "name": one.name,
        "label": one.title,
        "type": "query",
        "datasource": SOURCE,
        "definition": query,
        "query": {"query": query, "refId": "Variable"},
        "multi": True,
        "includeAll": True,
        # Not `.*`: that would take the sums over all topics too, which have no such label.
        "allValue": ".+",
        "current": {"selected": True, "text": ["All"], "value": ["$__all"]},
        "refresh": 2,
        "sort": 1,
        "hide": 0,
    }


def _placed(rows: Iterable[Row]) -> Iterable[Json]:
    """Lay the panels out in lines as wide as the page, and number them."""
    number, y = 0, 0
    for row in rows:
        number += 1
        yield {
            "id": number,
            "type": "row",
            "title": row.title,
            "collapsed": False,
            "panels": [],
            "gridPos": {"h": 1, "w": COLUMNS, "x": 0, "y": y},
        }
        y, x, line_height = y + 1, 0, 0
        for panel in row.panels:
            if x + panel.width > COLUMNS:
                y, x, line_height = y + line_height, 0, 0
            number += 1
            yield _panel(panel, number, {"h": panel.height, "w": panel.width, "x": x, "y": y})
            x, line_height = x + panel.width, max(line_height, panel.height)
        y += line_height


def _panel(panel: Panel, number: int, place: Json) -> Json:
    model: Json = {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.help,
        "datasource": SOURCE,
        "gridPos": place,
        "targets": [_target(query, chr(ord("A") + at)) for at, query in enumerate(panel.queries)],
        "fieldConfig": {"defaults": _defaults(panel), "overrides": _overrides(panel)},
        "options": _options(panel),
    }
    if panel.kind == "table":
        model["transformations"] = _columns(panel)
    return model


def _target(query: Query, ref: str) -> Json:
    return {
        "refId": ref,
        "datasource": SOURCE,
        "expr": query.expr,
        "legendFormat": query.legend or "__auto",
        "format": query.form,
        "instant": query.instant,
        "range": not query.instant,
    }


def _defaults(panel: Panel) -> Json:
    steps: list[Json] = [{"color": GREEN, "value": None}]
    steps += [{"color": color, "value": value} for value, color in panel.thresholds]
    defaults: Json = {
        "unit": panel.unit,
        "min": 0,
        "color": {"mode": "thresholds" if panel.kind == "stat" else "palette-classic"},
        "thresholds": {"mode": "absolute", "steps": steps},
        "mappings": _mappings(panel.texts),
    }
    if panel.max is not None:
        defaults["max"] = panel.max
    if panel.kind == "timeseries":
        defaults["custom"] = {
            "drawStyle": "line",
            "lineWidth": 1,
            "fillOpacity": 25 if panel.stacked else 8,
            "showPoints": "never",
            "stacking": {"mode": "normal" if panel.stacked else "none", "group": "A"},
            "thresholdsStyle": {"mode": "dashed" if panel.thresholds else "off"},
        }
    return defaults


def _mappings(texts: Mapping[float, str]) -> list[Json]:
    if not texts:
        return []
    return [{"type": "value", "options": {f"{value:g}": {"text": text} for value, text in texts.items()}}]


def _options(panel: Panel) -> Json:
    if panel.kind == "stat":
        return {
            "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
            "colorMode": "value",
            "graphMode": "none",
            "textMode": "name" if panel.text_of_label else "auto",
            "orientation": "auto",
            "justifyMode": "auto",
        }
    if panel.kind == "table":
        return {"showHeader": True, "cellHeight": "sm"}
    if panel.kind == "heatmap":
        return {
            "calculate": False,
            "cellGap": 1,
            "color": {"mode": "scheme", "scheme": "Oranges", "steps": 64},
            "yAxis": {"unit": panel.unit},
            "tooltip": {"show": True, "yHistogram": False},
        }
    return {
        "legend": {"displayMode": "table", "placement": "bottom", "calcs": ["lastNotNull", "max"], "showLegend": True},
        "tooltip": {"mode": "multi", "sort": "desc"},
    }


def _overrides(panel: Panel) -> list[Json]:
    return [
        {"matcher": {"id": "byName", "options": title}, "properties": [{"id": "unit", "value": unit}]}
        for _, title, unit in panel.columns
        if unit
    ]


def _columns(panel: Panel) -> list[Json]:
    """Join the answers by their labels, and show the columns that are wanted under their names."""
    return [
        {"id": "merge", "options": {}},
        {"id": "filterFieldsByName", "options": {"include": {"names": [name for name, _, _ in panel.columns]}}},
        {
            "id": "organize",
            "options": {
                "indexByName": {name: at for at, (name, _, _) in enumerate(panel.columns)},
                "renameByName": {name: title for name, title, _ in panel.columns},
            },
        },
    ]
