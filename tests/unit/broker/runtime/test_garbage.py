"""When the interpreter looks for garbage."""

from __future__ import annotations

import gc

import pytest

from broker.runtime.garbage import looking_later


@pytest.mark.parametrize("is_enabled", [True, False])
def test_no_garbage_is_looked_for_until_the_work_is_over(is_enabled: bool) -> None:
    was_enabled = gc.isenabled()
    try:
        (gc.enable if is_enabled else gc.disable)()
        with pytest.raises(KeyError), looking_later():
            assert not gc.isenabled()
            raise KeyError
        assert gc.isenabled() is is_enabled, "a start that keeps the collector off goes on doing so"
    finally:
        (gc.enable if was_enabled else gc.disable)()
