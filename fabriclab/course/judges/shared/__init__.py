"""Code that judges of several exercises and lessons share."""
