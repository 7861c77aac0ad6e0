"""Front doors in the manner of scikit-learn."""
