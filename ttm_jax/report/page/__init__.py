"""The HTML page about runs: one file that needs no network."""
