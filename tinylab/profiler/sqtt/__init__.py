"""Thread traces: packets, waves, instructions and their program counters."""
