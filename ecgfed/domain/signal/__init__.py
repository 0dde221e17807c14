"""One recording's samples: filters, quality, R peaks."""
