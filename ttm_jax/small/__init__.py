"""Small models for the procedural world, and how they are made."""
