"""Compilers: a program's text to machine code."""
