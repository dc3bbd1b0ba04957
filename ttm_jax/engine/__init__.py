"""Algorithm 1 (match, select, fit, repeat), with multi-seed runs, SimpleMatch and estimates."""
