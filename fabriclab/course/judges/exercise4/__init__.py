"""Exercise 4, all-reduce in a programmable switch: the judges of its questions, and the search for a short trace."""
