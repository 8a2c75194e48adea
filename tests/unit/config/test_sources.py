"""Properties syntax, the image's environment mapping, command line overrides."""

from __future__ import annotations

import pytest

from config.errors import InvalidConfig
from config.sources import from_environment, from_overrides, parse_properties, read_properties


def texts(text):
    return {name: value.text for name, value in parse_properties(text, "f").items()}


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("a=b", {"a": "b"}),
        ("a = b", {"a": "b"}),
        ("a:b", {"a": "b"}),
        ("a b", {"a": "b"}),
        ("a\t=\tb c ", {"a": "b c"}),
        ("a", {"a": ""}),
        ("a=", {"a": ""}),
        ("a==b", {"a": "=b"}),
        ("  a=b", {"a": "b"}),
        ("# a=b", {}),
        ("  ! a=b", {}),
        ("a=b#c", {"a": "b#c"}),
        (r"a\=b=c", {"a=b": "c"}),
        (r"a\ b=c", {"a b": "c"}),
        (r"a=\u0041\tx\\y\q", {"a": "A\tx\\yq"}),
        ("a=1\\\n   ,2", {"a": "1,2"}),
        ("a=1\\\\\nb=2", {"a": "1\\", "b": "2"}),
        ("a=1\\", {"a": "1"}),
        ("a=1\r\nb=2\rc=3", {"a": "1", "b": "2", "c": "3"}),
        ("a=1\na=2", {"a": "2"}),
        ("listeners=PLAINTEXT://:9092,X://h:1", {"listeners": "PLAINTEXT://:9092,X://h:1"}),
    ],
)
def test_java_properties_syntax(line, expected):
    assert texts(line) == expected


def test_continuation_ends_at_a_comment_lookalike():
    """Inside a continued value # is data, as in Java."""
    assert texts("a=1\\\n#2\nb=3") == {"a": "1#2", "b": "3"}


@pytest.mark.parametrize("line", [r"a=\u12", r"\uxyz=1", r"a=\\\u004"])
def test_half_an_escape_is_refused_with_its_line_as_in_java(line):
    with pytest.raises(InvalidConfig, match=r"^Malformed \\uxxxx encoding in a properties file \(f:2\)$"):
        texts(f"b=1\n{line}")


def test_origin_is_the_first_line_of_the_value():
    parsed = parse_properties("# comment\n\na=1\\\n2\nb=3", "server.properties")
    assert parsed["a"].origin == "server.properties:3"
    assert parsed["b"].origin == "server.properties:5"


def test_file_in_latin_1(tmp_path):
    path = tmp_path / "server.properties"
    path.write_bytes(b"broker.rack=caf\xe9\n")
    assert read_properties(str(path))["broker.rack"].text == "café"


def test_missing_file_is_one_line(tmp_path):
    with pytest.raises(InvalidConfig, match=r"Cannot read the properties file .*: No such file or directory"):
        read_properties(str(tmp_path / "nowhere.properties"))


@pytest.mark.parametrize(
    ("variable", "name"),
    [
        ("KAFKA_LOG_DIRS", "log.dirs"),
        ("KAFKA_NODE_ID", "node.id"),
        ("KAFKA_SOME__KEY", "some_key"),
        ("KAFKA_SOME___KEY", "some-key"),
        (
            "KAFKA_LISTENER_NAME_INTERNAL_SCRAM___SHA___256_SASL_JAAS_CONFIG",
            "listener.name.internal.scram-sha-256.sasl.jaas.config",
        ),
    ],
)
def test_environment_mapping(variable, name):
    layer = from_environment({variable: "x", "PATH": "/bin"})
    assert list(layer) == [name]
    assert layer[name] == ("x", f"environment {variable}")


def test_variables_of_the_image_are_no_configuration():
    names = ["HEAP_OPTS", "OPTS", "JMX_PORT", "JMX_OPTS", "LOG4J_OPTS", "TOOLS_LOG4J_LOGLEVEL", "CLUSTER_ID", "VERSION"]
    assert from_environment({f"KAFKA_{name}": "x" for name in names}) == {}


def test_overrides_are_cut_at_the_first_equals_sign_and_the_last_wins():
    layer = from_overrides(["a=1", "b=x=y", "a=2"])
    assert {name: value.text for name, value in layer.items()} == {"a": "2", "b": "x=y"}


@pytest.mark.parametrize("override", ["nothing", "=value"])
def test_override_without_key_or_value(override):
    with pytest.raises(InvalidConfig, match="expected key=value"):
        from_overrides([override])
