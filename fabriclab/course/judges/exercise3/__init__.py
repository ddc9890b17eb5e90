"""Exercise 3, an RDMA parameter server: the judges of its questions, their device, and the same between processes."""
