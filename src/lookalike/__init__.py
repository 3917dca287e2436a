"""Image embeddings trained with proxies."""
