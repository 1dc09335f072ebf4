"""The paper's tables and figures: cells to run, and the report on them."""
