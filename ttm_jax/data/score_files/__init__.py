"""Score files that any model can have written: npz, npy, CSV, JSON lines."""
