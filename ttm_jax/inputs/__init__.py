"""Conversion of images and captions to arrays, as each checkpoint expects them; without jax."""
