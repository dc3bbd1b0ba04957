"""Looking into checkpoints, comparing them, and exporting them."""
