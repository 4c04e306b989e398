"""Devices, one file each, and their compilers; loaded when ``Device[...]`` names them."""
