"""What an instructor sees of a class: a page made from the progress files that students have handed in."""
