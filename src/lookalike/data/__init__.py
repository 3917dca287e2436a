"""Images and their classes: reading, splitting, opening, batching."""
