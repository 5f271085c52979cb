"""Flask helpers without business logic: guard, bodies, limits, errors, logs, OpenAPI."""
