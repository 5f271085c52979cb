"""What the program does. A service never commits and never sees the request."""
