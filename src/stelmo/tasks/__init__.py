"""The paper's six tasks: official files → examples → predictions → official scores. Knows no command line."""
