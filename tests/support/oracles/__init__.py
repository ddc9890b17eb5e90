"""The same quantities computed another way, by other people's programs, or by hand over all cases."""
