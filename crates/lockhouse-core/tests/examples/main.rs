//! The rules of `decide`, one small story each.

mod asking;
mod capacity;
mod ending;
mod expiry;
mod fences;
mod keeper;
mod refusals;
mod saving;

#[path = "../properties/rows.rs"]
mod rows;
#[path = "../properties/words.rs"]
mod words;
