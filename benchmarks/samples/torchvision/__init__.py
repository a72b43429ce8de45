"""A stand-in for torchvision: digits that are drawn, for the sample that trains on MNIST."""
