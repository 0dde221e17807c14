"""Federated training across hospitals: Flower transports the messages, the methods' hooks stay the same."""
