"""Reports on speed: how much our work costs on top of what Python and the system make it cost."""
