"""The HTTP layer without business logic: endpoints, guard, limits, headers, logs, OpenAPI."""
