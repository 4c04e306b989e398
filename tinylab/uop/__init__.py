"""The graph: nodes, rules and rewriting. Knows no schedule, no kernel text, no device."""
