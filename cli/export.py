"""stub"""
def export_command() -> None:
    """stub"""
