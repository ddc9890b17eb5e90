"""The course on top of the library: questions, progress, judges, checks and grading, each on the floor of its order."""
