//! Asking for permits.

use std::sync::Arc;
use std::time::Duration;

use lockhouse::{Permit, RequestBuilder};
use serde_json::{Value, json};

use super::holds::What;
use super::told::{Failure, Told};
use super::{Runner, millis, text};

impl Runner {
    pub(crate) async fn acquire(&self, command: &Value) -> Told {
        let name = text(command, "as");
        let wait = millis(&command["wait_ms"]);
        let granted = async {
            let permit = self.permit(command).await?;
            let told = told(&permit);
            self.holds.hold(name, What::Permit(Arc::new(permit)));
            Ok(told)
        };
        self.bounded(wait.unwrap_or(Duration::MAX), granted).await
    }

    /// The library has no blocks. The answer to the release tells whether the permits were held until then.
    pub(crate) async fn block(&self, command: &Value) -> Told {
        let name = text(command, "as");
        self.acquire(command).await?;
        self.holds.stay(name).await;
        let is_lost = self.holds.is_lost(name).await;
        let released = self.holds.release(name).await;
        // A hold that was lost before fails the block, whatever its release answers.
        if is_lost["lost"] == true || released?["released"] == false {
            return Err(Failure::new("lost", "it was lost before the end"));
        }
        Ok(json!({}))
    }

    pub(crate) async fn session(&self, command: &Value) -> Told {
        let ttl = millis(&command["ttl_ms"]).unwrap_or(Duration::from_secs(30));
        let session = self.lockhouse.session(text(command, "owner"), ttl).await?;
        let what = What::Session(Arc::new(session));
        self.holds.hold(text(command, "as"), what);
        Ok(json!({}))
    }

    async fn permit(&self, command: &Value) -> Result<Permit, Failure> {
        if let Some(name) = command["semaphore"].as_str() {
            if let Some(capacity) = command["capacity"].as_i64() {
                self.define_if_missing(name, capacity).await?;
            }
            return Ok(self.lockhouse.semaphore(name).acquire().await?);
        }
        let request = self.request(command);
        Ok(match millis(&command["wait_ms"]) {
            Some(wait) => request.wait(wait).acquire().await?,
            None => request.acquire().await?,
        })
    }

    fn request(&self, command: &Value) -> RequestBuilder {
        let id = command["external_id"].as_str();
        let mut request = match (command["session"].as_str(), id) {
            (Some(session), Some(id)) => self.holds.session(session).request_with_id(id),
            (Some(session), None) => self.holds.session(session).request(),
            (None, Some(id)) => self.lockhouse.request_with_id(id),
            (None, None) => self.lockhouse.request(),
        };
        for (semaphore, count) in command["permits"].as_object().into_iter().flatten() {
            let count = u32::try_from(count.as_u64().unwrap()).unwrap();
            request = request.permits(semaphore, count);
        }
        if let Some(owner) = command["owner"].as_str() {
            request = request.owner(owner);
        }
        if let Some(ttl) = millis(&command["ttl_ms"]) {
            request = request.ttl(ttl);
        } else if command.get("ttl_ms").is_some() {
            request = request.without_ttl();
        }
        match command["priority"].as_i64() {
            Some(priority) => request.priority(i32::try_from(priority).unwrap()),
            None => request,
        }
    }
}

fn told(permit: &Permit) -> Value {
    let names: Vec<&str> = permit.fences().map(|(name, _)| name).collect();
    let fences = names
        .iter()
        .map(|name| ((*name).to_owned(), json!(permit.fence(name))));
    let slots = names
        .iter()
        .map(|name| ((*name).to_owned(), json!(permit.slots(name))));
    json!({
        "external_id": permit.external_id().as_str(),
        "fences": fences.collect::<serde_json::Map<_, _>>(),
        "slots": slots.collect::<serde_json::Map<_, _>>(),
    })
}
