//! Connections that are driven without a server: what a peer sends in pieces, and what it hears.

mod exchange;
mod fetching;
mod handed_over;
mod publishing;
mod reporting;
mod watching;
