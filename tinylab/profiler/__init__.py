"""Where the time went: captures of counters and thread traces, read and summed."""
