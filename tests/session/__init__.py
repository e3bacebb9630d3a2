"""Real sessions with real Python agents: host and runner together."""
