"""Requirements on a design: each is a file that registers itself, with what has to be met before it can be judged."""
