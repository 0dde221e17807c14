"""Which figure of which page is read where; ``benchmarks/pages.py`` writes them."""
