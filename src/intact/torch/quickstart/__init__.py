"""The main job on real images: train, calibrate, compare, fine-tune, export, verify."""
