"""Exercise 3, an RDMA parameter server: the judges, the grader's device, and runs between real processes."""
