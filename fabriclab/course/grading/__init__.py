"""Grading: learners' code is run behind protections ("walls"), and the answers that come back are judged here."""
