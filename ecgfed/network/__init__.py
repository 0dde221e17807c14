"""The same training across hospitals: Flower carries the messages, the hooks of the methods stay as they are."""
