"""What the program does. A service never reads the request.

It runs in its caller's transaction. Refreshing tokens, the outbox and pruning commit by themselves.
"""
