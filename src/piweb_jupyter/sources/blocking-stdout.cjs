// Loaded before pi-web's runner (`node -r`). The runner writes its frames with fs.writeSync and
// ignores how much was written; on a full non-blocking pipe that cuts or drops them. Blocking
// writes lose nothing. The host reads all the time, so the runner never waits long.
"use strict";
process.stdout._handle?.setBlocking?.(true);
