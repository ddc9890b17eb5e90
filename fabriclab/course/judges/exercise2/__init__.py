"""Exercise 2, the interconnect of a training cluster: the judges."""
