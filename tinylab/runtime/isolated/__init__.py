"""The far side of ``lab.worker``: processes in which a kernel can do no harm.

``channel`` messages · ``memory`` buffers between guards, and what a fault means · ``child`` the
processes.
"""
