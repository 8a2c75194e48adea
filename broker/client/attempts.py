"""How often one call is tried, and how long it waits in between: a little longer each time, until its time is up."""

from __future__ import annotations

from broker.client.settings import FIRST_PAUSE_S, LONGEST_PAUSE_S, Settings


class Attempts:
    """The tries of one call."""

    def __init__(self, settings: Settings, total_timeout_s: float) -> None:
        self._settings = settings
        self._deadline_s = settings.now_s() + total_timeout_s
        self._pause_s = FIRST_PAUSE_S  # before the next try; changed by pause

    def may_go_on(self) -> bool:
        """Tell whether there is time for another try after the pause."""
        return self._settings.now_s() + self._pause_s < self._deadline_s

    def pause(self) -> None:
        """Wait before the next try. Blocking."""
        self._settings.sleep(self._pause_s)
        self._pause_s = min(self._pause_s * 2, LONGEST_PAUSE_S)
