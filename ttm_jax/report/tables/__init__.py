"""Tables: results beside the paper's, verdicts, ablations, logits."""
