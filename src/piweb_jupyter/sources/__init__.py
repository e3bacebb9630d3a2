"""What `%piweb` is given, turned into a command line that may run: resolve, trust, launch spec."""

from __future__ import annotations
