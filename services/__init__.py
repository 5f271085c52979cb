"""What the program does. A service never reads the request.

It runs in its caller's transaction. Refreshing tokens, trying a code, the time of a service key's
last use, the outbox, pruning and samples commit by themselves.
"""
