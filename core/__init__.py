"""Modules without Flask and without the database."""
