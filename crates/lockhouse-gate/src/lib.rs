//! Fence gates, for a resource that holders of permits write to.
//!
//! Every grant on a semaphore has a fence that is higher than those of all earlier grants. A writer sends its fence
//! along. The gate keeps the highest fence that passed, for each resource and slot, and refuses a lower one: its
//! writer has lost the hold, and somebody else has been granted it since.
//!
//! - An equal fence passes: the same holder writes again.
//! - At capacity 1 the slot is always 0. At a higher capacity make the semaphore
//!   [slotted](https://github.com/lockhouse/lockhouse/blob/main/docs/concepts/terms.md), and pass the gate with a slot
//!   of the permit. Each slot has one live holder, so its fences rise from holder to holder. Without slots a lower
//!   fence is no sign of a lost hold, and no gate can help.
//! - Fences of different semaphores cannot be compared. Guard a resource by one semaphore.
//!
//! | where the resource is | the gate |
//! |---|---|
//! | a database with SQL | [`sql`]: a table and a statement, in the writer's transaction |
//! | Redis or Valkey | [`redis`]: the beginning of the script that writes |
//! | behind HTTP | `http`, with the feature `http`: a tower layer over a [`Gate`] |
//! | in this process | [`MemoryGate`] |

mod fence;
mod gate;
#[cfg(feature = "http")]
pub mod http;
pub mod redis;
pub mod sql;

pub use fence::{Fence, Malformed};
pub use gate::{Gate, MemoryGate, Refused};
pub use lockhouse_core::SqlDialect;
