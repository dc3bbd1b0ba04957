"""The models of the paper and where their weights are on the Hugging Face hub."""

MODELS = {
    "siglip_b16": "google/siglip-base-patch16-224",
    "siglip_l16": "google/siglip-large-patch16-256",
    "clip_b16": "openai/clip-vit-base-patch16",
    "clip_b32": "openai/clip-vit-base-patch32",
    "smolvlm_256m": "HuggingFaceTB/SmolVLM-256M-Instruct",
}
