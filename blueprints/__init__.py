"""The HTTP face, one module per resource."""
