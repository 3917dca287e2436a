"""Settings of an experiment: the schema, and loading, overriding and resolving them."""
