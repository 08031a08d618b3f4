//! Lock several semaphores in the order in which the caller names them.

use async_trait::async_trait;

use super::client::At;
use super::contract::Strategy;
use super::counted;
use super::sql::{Server, Trouble};
use crate::history::{Asked, Promise};

/// Two callers with different orders wait for each other.
pub(super) struct CallersOrder;

#[async_trait]
impl Strategy for CallersOrder {
    fn name(&self) -> &'static str {
        "callers-order"
    }

    fn about(&self) -> &'static str {
        "SELECT FOR UPDATE of several semaphores in the order of the caller"
    }

    fn breaks(&self) -> Promise {
        Promise::P6
    }

    fn runs_on(&self, server: Server) -> bool {
        server != Server::Sqlite
    }

    fn takes_several(&self) -> bool {
        true
    }

    fn tables(&self) -> &'static [&'static str] {
        counted::TABLES
    }

    async fn acquire(&self, at: &mut At, asked: &Asked) -> Result<bool, Trouble> {
        if counted::is_held(at, &asked.id).await? {
            return Ok(true);
        }
        at.sql.begin().await?;
        let done = async {
            for (name, _) in &asked.permits {
                let capacity = counted::lock(at, name).await?;
                at.meet.others().await;
                if counted::count(at, name).await? >= capacity {
                    return Ok(false);
                }
                counted::insert(at, name, &asked.id).await?;
            }
            Ok(true)
        };
        let done = done.await;
        at.finish(done).await
    }

    async fn release(&self, at: &mut At, id: &str) -> Result<bool, Trouble> {
        counted::delete(at, id).await
    }
}
