"""VQAScore with SmolVLM: the scorer, its task and its loss."""
