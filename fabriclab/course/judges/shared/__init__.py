"""What judges of several exercises and lessons share."""
