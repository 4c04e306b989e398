"""Counters: what hardware counted."""
