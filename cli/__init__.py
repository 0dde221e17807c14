"""The command ``ecgfed``: parse, call, print. The work is done in the package ``ecgfed``."""
