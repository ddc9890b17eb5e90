"""Exercise 1, profile collectives: the judges of its questions."""
