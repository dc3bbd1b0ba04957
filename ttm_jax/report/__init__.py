"""Run folders and score files -> tables, figures and the HTML page."""
