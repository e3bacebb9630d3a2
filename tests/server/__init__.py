"""What runs beside the Jupyter server."""
