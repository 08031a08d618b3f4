//! `lockhouse serve`.

mod behind_nginx;
mod bounds;
mod starting;
mod tls;
mod traces;
mod upkeep;
