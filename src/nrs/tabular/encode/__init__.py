"""From any table to float32 features: one file per kind of column."""
