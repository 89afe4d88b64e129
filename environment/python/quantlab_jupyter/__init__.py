"""What `cargo lab` has run by the Python environment: notebooks, grading, and a spare kernel for its Jupyter."""
