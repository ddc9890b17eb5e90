"""The predictions and answers of a learner, stored in one file."""
