"""Suspects: each file registers functions that look at a case and say what they suspect, and which line shows it."""
