"""Another prevalence: `PriorCorrection` where the shares of the classes have moved."""
