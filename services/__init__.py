"""What the program does. A service never sees the request.

It takes part in its caller's transaction; the outbox and pruning are jobs that commit their own.
"""
