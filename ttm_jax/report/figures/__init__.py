"""Figures as PNG, PDF or SVG: the paper's, and curves of your own runs."""
