"""Exercise 4, all-reduce in a programmable switch: the judges, and the search for the shortest trace of a fault."""
