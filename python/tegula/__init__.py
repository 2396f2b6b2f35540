"""Tegula from Python: so far the Jupyter kernel (`python -m tegula.kernel install`)."""
