"""Paths of the tests and their files."""

from pathlib import Path

TESTS = Path(__file__).parents[1]
