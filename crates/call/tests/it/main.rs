//! Links through their handles and sockets. Those that change networks do so in threads of their own, which nothing else sees.
#![allow(clippy::unwrap_used)]

mod contribution_networks;
mod drone;
mod link_networks;
