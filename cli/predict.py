"""stub"""
def predict_command() -> None:
    """stub"""
