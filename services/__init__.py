"""What the program does. A service never reads the request, and runs in its caller's transaction;
docs/decisions.md names those that commit by themselves."""
