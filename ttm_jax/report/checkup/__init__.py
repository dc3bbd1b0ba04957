"""Published counts against measured ones: which choice explains a difference, and which groups."""
