"""The version of this program; the package's metadata must say the same, which a tidy test checks."""

from __future__ import annotations

VERSION = "0.1.0"
