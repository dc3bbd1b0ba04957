"""Rehearsal at full size: the commands that a user types, against local stand-ins of the hubs."""
