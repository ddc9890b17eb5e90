"""The graders of the exercises: each file registers the judges of its own questions."""
