"""EC2: moto's, with capacity, placement groups and refusals."""
