"""What rejects a plan or is worth a warning, one file per subject. Every rule is a function from a case to findings."""
