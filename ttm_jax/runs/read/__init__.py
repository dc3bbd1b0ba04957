"""Readers of run folders that check everything: types, ranges, and agreement between the files."""
