"""Losses of many classes, computed in chunks of classes or of samples without the B x P matrix of similarities.

A kernel does the products with embeddings and proxies; the formula is the loss's own, the same that the dense
form uses. `chunks.py` says which classes a chunk holds, `over_classes.py` and `over_samples.py` are the two
kernels, `autograd.py` hands their gradients to autograd.
"""
