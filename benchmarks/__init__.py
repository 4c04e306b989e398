"""What tinylab costs, beside others, in one run: `python -m benchmarks`. Ratios, never limits."""
