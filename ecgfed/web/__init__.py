"""Assets that run in a browser (ECG paper, page scripts), and how they become one self-contained HTML file."""
