"""`python -m piweb_jupyter.runner --agent PATH`."""

from __future__ import annotations

from .main import main

raise SystemExit(main())
