"""Notebook widgets of tinylab: thin views of `tinylab.lab`, and the `%%tinygrad` magic."""
