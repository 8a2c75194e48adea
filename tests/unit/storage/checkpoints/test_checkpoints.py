import pytest

from storage.checkpoints.clean_shutdown import read_broker_epoch, take_clean_shutdown, write_clean_shutdown
from storage.checkpoints.meta_properties import MetaProperties, read_meta_properties, write_meta_properties
from storage.checkpoints.offsets import read_offsets, write_offsets
from storage.checkpoints.partition_metadata import read_partition_metadata, write_partition_metadata
from storage.errors import CorruptCheckpoint
from storage.types import TopicPartition


def test_offsets_are_written_as_kafka_writes_them(fs, tmp_path):
    path = str(tmp_path / "recovery-point-offset-checkpoint")
    write_offsets(fs, path, {TopicPartition("orders", 0): 42})
    assert (tmp_path / "recovery-point-offset-checkpoint").read_bytes() == b"0\n1\norders 0 42\n"
    assert read_offsets(fs, path) == {("orders", 0): 42}
    assert [entry.name for entry in tmp_path.iterdir()] == ["recovery-point-offset-checkpoint"]


@pytest.mark.parametrize(
    "content",
    [b"garbage", b"9\n0\n", b"0\n2\na 0 1\n", b"0\n1\na 0\n", b"0\n1\na x 1\n", b"0\n", b"0\nx\n", b"\xff\xfe"],
)
def test_malformed_checkpoints_are_refused(fs, tmp_path, content):
    path = tmp_path / "c"
    path.write_bytes(content)
    with pytest.raises(CorruptCheckpoint):
        read_offsets(fs, str(path))


def test_missing_and_empty_checkpoints_have_no_entries(fs, tmp_path):
    assert read_offsets(fs, str(tmp_path / "none")) == {}
    (tmp_path / "empty").write_bytes(b"")
    assert read_offsets(fs, str(tmp_path / "empty")) == {}


def test_partition_metadata_has_no_newline_at_the_end(fs, tmp_path):
    topic_id = bytes(range(16))
    assert read_partition_metadata(fs, str(tmp_path)) is None
    write_partition_metadata(fs, str(tmp_path), topic_id)
    assert (tmp_path / "partition.metadata").read_bytes() == b"version: 0\ntopic_id: AAECAwQFBgcICQoLDA0ODw"
    assert read_partition_metadata(fs, str(tmp_path)) == topic_id
    (tmp_path / "partition.metadata").write_bytes(b"version: 1\ntopic_id: x")
    with pytest.raises(CorruptCheckpoint):
        read_partition_metadata(fs, str(tmp_path))


def test_meta_properties_of_both_versions_are_read(fs, tmp_path):
    assert read_meta_properties(fs, str(tmp_path)) is None
    properties = MetaProperties("cluster-1", 3, bytes(range(16)))
    write_meta_properties(fs, str(tmp_path), properties)
    assert read_meta_properties(fs, str(tmp_path)) == properties
    (tmp_path / "meta.properties").write_bytes(b"#x\nversion=0\nbroker.id=7\ncluster.id=abc\n")
    assert read_meta_properties(fs, str(tmp_path)) == MetaProperties("abc", 7, None)


def test_the_clean_shutdown_marker_is_taken_once(fs, tmp_path):
    directory = str(tmp_path)
    assert not take_clean_shutdown(fs, directory)
    write_clean_shutdown(fs, directory, 12)
    assert (tmp_path / ".kafka_cleanshutdown").read_bytes() == b'{"version":0,"brokerEpoch":12}'
    assert read_broker_epoch(fs, directory) == 12
    assert take_clean_shutdown(fs, directory)
    assert not take_clean_shutdown(fs, directory)
    (tmp_path / ".kafka_cleanshutdown").write_bytes(b"")
    assert read_broker_epoch(fs, directory) == -1
    assert take_clean_shutdown(fs, directory)
