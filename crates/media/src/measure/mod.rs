//! Pictures made to be measured, and the measurements.
