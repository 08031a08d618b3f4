//! Calls that take or give no permits.

use lockhouse::{Code, Error, Owner, Request, SemaphoreName, SemaphoreStatus};
use lockhouse_wire as wire;
use serde_json::{Value, json};

use super::told::{Failure, Told};
use super::{Runner, millis, text};

/// The number of rows that one call asks for.
const PAGE: u32 = 100;

impl Runner {
    pub(crate) async fn call(&self, command: &Value) -> Told {
        let lockhouse = &self.lockhouse;
        let name = text(command, "semaphore");
        let id = text(command, "external_id");
        let capacity = command["capacity"].as_i64().unwrap_or_default();
        match text(command, "op") {
            "define" => self.define(command).await,
            "define_if_missing" => Ok(semaphore(&self.define_if_missing(name, capacity).await?)),
            "resize" => Ok(semaphore(
                &lockhouse.define(name, capacity).must_exist().await?,
            )),
            "status" => Ok(semaphore(&lockhouse.status(name).await?)),
            "delete" => {
                lockhouse.delete(name).await?;
                Ok(json!({}))
            }
            "list" => self.list(text(command, "prefix")).await,
            "history" => {
                let changes = lockhouse.history(name, PAGE).await?;
                let changes: Vec<_> = changes.iter().map(wire::CapacityChange::from).collect();
                Ok(json!({ "changes": changes }))
            }
            "waiting" => {
                let waiting = lockhouse.waiting(name).await?;
                let waiting: Vec<_> = waiting.iter().map(wire::Waiter::from).collect();
                Ok(json!({ "waiting": waiting }))
            }
            "holders" | "requests" => self.requests(name, text(command, "owner")).await,
            "find" => Ok(json!(wire::Request::from(&lockhouse.find(id).await?))),
            "force" => {
                let by = command["by"].as_str();
                Ok(json!({ "released": lockhouse.force_release(id, by).await?.now }))
            }
            "set_template" | "templates" | "delete_template" => self.templates(command).await,
            op => Err(Failure::new(
                "internal",
                format!("there is no operation {op:?}"),
            )),
        }
    }

    async fn define(&self, command: &Value) -> Told {
        let capacity = command["capacity"].as_i64().unwrap_or_default();
        let mut define = self.lockhouse.define(text(command, "semaphore"), capacity);
        if command["slots"] == true {
            define = define.slots();
        }
        if let Some(note) = command["note"].as_str() {
            define = define.note(note);
        }
        if let Some(expected) = command["expected_capacity"].as_i64() {
            define = define.expected(expected);
        }
        Ok(semaphore(&define.await?))
    }

    /// Defines a semaphore if it does not exist. An existing semaphore keeps its capacity.
    pub(crate) async fn define_if_missing(
        &self,
        name: &str,
        capacity: i64,
    ) -> Result<SemaphoreStatus, Error> {
        match self.lockhouse.define(name, capacity).if_missing().await {
            Err(error) if error.code() == Code::CapacityChanged => {
                self.lockhouse.status(name).await
            }
            defined => defined,
        }
    }

    async fn list(&self, prefix: &str) -> Told {
        let mut all: Vec<SemaphoreStatus> = Vec::new();
        loop {
            let after = all.last().map(|last| last.semaphore.name.clone());
            let page = match prefix {
                "" => self.lockhouse.semaphores(after.as_ref(), PAGE).await?,
                prefix => {
                    let lockhouse = &self.lockhouse;
                    lockhouse
                        .semaphores_with_prefix(prefix, after.as_ref(), PAGE)
                        .await?
                }
            };
            if page.is_empty() {
                let all: Vec<Value> = all.iter().map(semaphore).collect();
                return Ok(json!({ "semaphores": all }));
            }
            all.extend(page);
        }
    }

    async fn requests(&self, semaphore: &str, owner: &str) -> Told {
        let on = (!semaphore.is_empty())
            .then(|| SemaphoreName::parse(semaphore))
            .transpose()?;
        let owner = (!owner.is_empty())
            .then(|| Owner::parse(owner))
            .transpose()?;
        let mut all: Vec<Request> = Vec::new();
        let mut after = None;
        loop {
            let page = match &owner {
                Some(owner) => {
                    self.lockhouse
                        .held_by(owner, on.as_ref(), after, PAGE)
                        .await?
                }
                None => self.lockhouse.holders(on.as_ref(), after, PAGE).await?,
            };
            all.extend(page.requests);
            after = page.next;
            if after.is_none() {
                let all: Vec<_> = all.iter().map(wire::Request::from).collect();
                return Ok(json!({ "requests": all }));
            }
        }
    }

    async fn templates(&self, command: &Value) -> Told {
        let pattern = text(command, "pattern");
        match text(command, "op") {
            "set_template" => {
                let capacity = command["capacity"].as_i64().unwrap_or_default();
                let template = self.lockhouse.template(pattern, capacity);
                let template = match millis(&command["idle_ms"]) {
                    Some(idle) => template.idle(idle),
                    None => template,
                };
                Ok(json!(wire::Template::from(&template.send().await?.0)))
            }
            "templates" => {
                let templates = self.lockhouse.templates(None, PAGE).await?;
                let templates: Vec<_> = templates.iter().map(wire::Template::from).collect();
                Ok(json!({ "templates": templates }))
            }
            _ => Ok(json!({ "deleted": self.lockhouse.delete_template(pattern).await? })),
        }
    }
}

fn semaphore(status: &SemaphoreStatus) -> Value {
    json!(wire::Semaphore::from(status))
}
