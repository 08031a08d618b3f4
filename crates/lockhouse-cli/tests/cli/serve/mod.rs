//! `lockhouse serve`.

mod bounds;
mod starting;
mod tls;
mod upkeep;
