"""Meta-estimators that combine calibrators with scikit-learn classifiers."""
