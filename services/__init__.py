"""What the program does. A service never reads the request.

It runs in its caller's transaction. Refreshing tokens, the outbox, pruning and samples commit by
themselves.
"""
