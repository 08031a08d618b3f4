//! The JSON of the HTTP API, shared by the server and the client.
//!
//! Durations are integers in milliseconds and end in `_ms`; times are RFC 3339 in UTC.
