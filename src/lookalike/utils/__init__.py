"""Small helpers that every layer may use."""
