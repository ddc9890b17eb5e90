"""What a learner has predicted and answered, kept in one file."""
