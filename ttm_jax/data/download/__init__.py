"""Fetching the benchmarks: resumable, checked, atomic; `prepare` is the way in."""
