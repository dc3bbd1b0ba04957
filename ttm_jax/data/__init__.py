"""Files -> groups of images and captions: your folders, benchmarks, a procedural world."""
