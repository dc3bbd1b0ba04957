"""Groups -> scores: contrastive models, VQAScore, models behind an API."""
