"""SigLIP and CLIP bound to data: the model a user holds, its task, its loss."""
