//! The analysis on streams whose defects are known.
