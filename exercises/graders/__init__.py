"""The graders of exercises, and of functions that lessons ask for: each file registers the judges of its own."""
