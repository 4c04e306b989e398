"""Devices, one file each, and their compilers; loaded by name when ``Device[...]`` asks for them."""
