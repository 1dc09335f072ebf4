"""The paper's six tasks: official files → examples → predictions → official figures. Knows no command line."""
