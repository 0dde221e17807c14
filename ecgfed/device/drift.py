class Drift:
    def __init__(self, classes): pass
    def add(self, *a): pass
