"""What `tools/freeze.py` freezes: one module a section, each with a function ``frozen()``."""
