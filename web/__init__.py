"""Flask helpers without business: bodies, answers, guards, errors, logs, OpenAPI."""
