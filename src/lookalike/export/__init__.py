"""Trained models for other tools: timm folders, ONNX and PyTorch programs, the Hugging Face hub.

Every export is checked where it will be used: a subprocess that cannot import `lookalike` opens it and embeds real
images, and the command fails if the embeddings differ.
"""
