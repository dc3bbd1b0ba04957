"""Conversion between checkpoint files and parameters: Hugging Face, big_vision npz and orbax."""
