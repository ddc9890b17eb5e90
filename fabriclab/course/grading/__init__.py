"""Grading: learners' answers are run behind walls, and what comes back is judged here."""
