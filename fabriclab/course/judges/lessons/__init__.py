"""Checks of lessons that run a learner's function, one file for each lesson; any function that works is right."""
