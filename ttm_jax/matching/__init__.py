"""From scores to matchings, metrics and thresholds: numpy and scipy only, all in float64."""
