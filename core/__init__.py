"""Pure Python: no Flask, no database."""
