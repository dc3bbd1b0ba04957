"""Output of a run: folder, checkpoints, console progress, trackers and signal handling."""
