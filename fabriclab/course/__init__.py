"""The course on top of the library: questions, progress, judges, checks and grading; each imports only earlier ones."""
