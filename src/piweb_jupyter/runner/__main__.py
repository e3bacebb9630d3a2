"""`python -m piweb_jupyter.runner --agent PATH`."""

from __future__ import annotations

import gc

# Nothing that an import makes is garbage, and looking for some takes a tenth of the start. `main`
# turns it on again when the agent is there.
gc.disable()

from .main import main  # noqa: E402

raise SystemExit(main())
