"""Several hosts as one program: who takes part, what they agree on, and what if one is lost."""
