"""SigLIP, CLIP and SmolVLM in Flax: pure functions of parameters and arrays."""
