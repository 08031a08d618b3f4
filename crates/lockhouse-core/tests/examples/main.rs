//! The rules of `decide`, one small example each.

mod asking;
mod capacity;
mod causes;
mod ending;
mod expiry;
mod fences;
mod footprint;
mod keeper;
mod owners;
mod refusals;
mod resizing;
mod saving;
mod templates;
mod turns;

#[path = "../properties/rows.rs"]
mod rows;
#[path = "../properties/words.rs"]
mod words;
