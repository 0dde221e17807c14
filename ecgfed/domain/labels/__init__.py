"""Which beats of a recording are worth a label, and what the labels of a few say of all (numpy and scipy)."""
