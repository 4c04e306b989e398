"""What happened: records of rewriting and events, stepping, provenance, the .tlab file."""
