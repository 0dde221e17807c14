"""The tables of the papers that this package implements, as data: protocols, rows, and the printed values."""
