"""What runs in a browser: ECG paper and the pages' own behaviour, and how they become one self-contained file."""
