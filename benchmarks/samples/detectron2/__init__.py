"""A stand-in for detectron2: the sizes that its samples read from a configuration."""
