//! Answers are what `openapi.json` says they are. Readers of it may pass over members that they
//! don't know; here, one that it does not name is a failure.

use crate::server::{Answer, Server};
use serde_json::{Value, json};

pub(crate) struct Contract(pub(crate) Value);

impl Contract {
    pub(crate) fn read() -> Self {
        let mut contract: Value = serde_json::from_str(lockhouse_server::OPENAPI).unwrap();
        for schema in contract["components"]["schemas"]
            .as_object_mut()
            .unwrap()
            .values_mut()
        {
            schema["additionalProperties"] = json!(false);
        }
        Self(contract)
    }

    fn follow<'a>(&'a self, value: &'a Value) -> &'a Value {
        match value["$ref"].as_str() {
            Some(to) => self.0.pointer(to.trim_start_matches('#')).unwrap(),
            None => value,
        }
    }

    /// That `answer` is one that the contract has for `method` on `route`.
    #[track_caller]
    pub(crate) fn holds(&self, method: &str, route: &str, answer: &Answer) {
        let status = answer.status.as_str();
        let responses = &self.0["paths"][route][method.to_lowercase()]["responses"];
        let response = self.follow(&responses[status]);
        assert!(response.is_object(), "{method} {route} has no {status}");
        let Some(content) = response["content"].as_object() else {
            assert!(answer.body.is_empty(), "{method} {route} {status}");
            return;
        };
        let content_type = answer.header("content-type").unwrap();
        let content_type = content_type.split(';').next().unwrap();
        assert!(
            content.contains_key(content_type),
            "{method} {route} {status}: {content_type}"
        );
        if !content_type.ends_with("json") {
            return;
        }
        let errors = self.errors(&content[content_type]["schema"], &answer.json());
        assert!(
            errors.is_empty(),
            "{method} {route} {status}: {errors:?}\n{}",
            answer.json()
        );
    }

    /// Whether the contract takes `body` for `method` on `route`.
    pub(crate) fn takes(&self, method: &str, route: &str, body: &Value) -> bool {
        let operation = &self.0["paths"][route][method.to_lowercase()];
        let schema = &operation["requestBody"]["content"]["application/json"]["schema"];
        assert!(schema.is_object(), "{method} {route} takes a body");
        self.errors(schema, body).is_empty()
    }

    pub(crate) fn errors(&self, schema: &Value, value: &Value) -> Vec<String> {
        let mut schema = schema.clone();
        schema["components"] = self.0["components"].clone();
        let validator = jsonschema::draft202012::new(&schema).unwrap();
        let errors = validator.iter_errors(value);
        errors
            .map(|error| format!("{} {error}", error.instance_path()))
            .collect()
    }
}

#[tokio::test]
async fn answers_are_those_of_the_contract() {
    let contract = Contract::read();
    let server = Server::start().await;
    const SEMAPHORE: &str = "/v1/semaphores/{name}";
    const REQUEST: &str = "/v1/requests/{external_id}";
    const RENEW: &str = "/v1/requests/{external_id}/renew";
    const OWNER: &str = "/v1/owners/{owner}";
    let ask = |semaphore: &str| {
        format!(r#"{{"permits":[{{"semaphore":"{semaphore}"}}],"ttl_ms":60000}}"#)
    };
    let one = r#"{"permits":[{"semaphore":"a","count":2}]}"#.to_owned();
    let calls = [
        ("PUT", SEMAPHORE, "a", r#"{"capacity":1}"#.to_owned(), 201),
        (
            "PUT",
            SEMAPHORE,
            "a",
            r#"{"capacity":2,"note":"n","changed_by":"ann"}"#.into(),
            200,
        ),
        (
            "PUT",
            SEMAPHORE,
            "a",
            r#"{"capacity":3,"expected_capacity":1}"#.into(),
            409,
        ),
        ("PUT", SEMAPHORE, "a", "{}".into(), 400),
        ("PUT", SEMAPHORE, "a", r#"{"capacity":-1}"#.into(), 422),
        ("PUT", SEMAPHORE, "a", " ".repeat(65 * 1024), 413),
        ("GET", SEMAPHORE, "a", String::new(), 200),
        ("GET", SEMAPHORE, "b", String::new(), 404),
        ("GET", SEMAPHORE, "%FF", String::new(), 400),
        ("GET", "/v1/semaphores", "", String::new(), 200),
        (
            "GET",
            "/v1/semaphores/{name}/history",
            "a",
            String::new(),
            200,
        ),
        (
            "GET",
            "/v1/semaphores/{name}/waiting",
            "a",
            String::new(),
            200,
        ),
        ("PUT", REQUEST, "x", ask("a"), 201),
        ("PUT", REQUEST, "x", ask("a"), 200),
        ("PUT", REQUEST, "x", ask("b"), 409),
        ("PUT", REQUEST, "y", ask("b"), 404),
        ("PUT", REQUEST, "y", one, 423),
        (
            "PUT",
            REQUEST,
            "y",
            ask("a").replace("}]", r#","count":3}]"#),
            422,
        ),
        ("PUT", REQUEST, "y", "[".into(), 400),
        ("GET", REQUEST, "x", String::new(), 200),
        ("GET", REQUEST, "y", String::new(), 404),
        ("GET", "/v1/requests", "", String::new(), 200),
        (
            "GET",
            "/v1/requests",
            "?owner=ann&semaphore=a",
            String::new(),
            200,
        ),
        ("GET", "/v1/requests", "?semaphore=b", String::new(), 404),
        ("GET", "/v1/requests", "?owner=%20", String::new(), 422),
        ("GET", "/v1/requests", "?owners=ann", String::new(), 400),
        ("DELETE", REQUEST, "x", r#"{"force":true}"#.into(), 400),
        ("DELETE", SEMAPHORE, "a", " ".repeat(65 * 1024), 413),
        ("DELETE", OWNER, "ann", "[]".into(), 400),
        (
            "GET",
            "/v1/semaphores/{name}/holders",
            "a",
            String::new(),
            200,
        ),
        (
            "GET",
            "/v1/semaphores/{name}/holders",
            "b",
            String::new(),
            404,
        ),
        ("DELETE", SEMAPHORE, "a", String::new(), 409),
        ("POST", RENEW, "x", String::new(), 200),
        ("POST", RENEW, "y", String::new(), 404),
        ("POST", RENEW, "x", r#"{"ttl_ms":0}"#.into(), 422),
        ("DELETE", REQUEST, "x", String::new(), 200),
        ("DELETE", REQUEST, "x", String::new(), 200),
        ("DELETE", REQUEST, "y", String::new(), 404),
        ("PUT", REQUEST, "x", ask("a"), 410),
        ("POST", RENEW, "x", String::new(), 410),
        ("GET", REQUEST, "x", String::new(), 200),
        ("PUT", REQUEST, "z", ask("a"), 201),
        ("DELETE", REQUEST, "z?by=", String::new(), 422),
        ("DELETE", REQUEST, "z?force=1", String::new(), 400),
        ("DELETE", REQUEST, "z?force=true&by=bob", String::new(), 200),
        ("GET", REQUEST, "z", String::new(), 200),
        ("PUT", OWNER, "ann", r#"{"ttl_ms":1}"#.into(), 200),
        ("PUT", OWNER, "ann", r#"{"ttl_ms":0}"#.into(), 422),
        ("PUT", OWNER, "ann", "{}".into(), 400),
        ("PUT", OWNER, "ann", " ".repeat(65 * 1024), 413),
        ("DELETE", OWNER, "ann", String::new(), 200),
        ("DELETE", OWNER, "%20", String::new(), 422),
        ("DELETE", SEMAPHORE, "a", String::new(), 204),
        ("GET", "/healthz", "", String::new(), 200),
        ("GET", "/readyz", "", String::new(), 200),
        ("GET", "/metrics", "", String::new(), 200),
        ("GET", "/openapi.json", "", String::new(), 200),
        ("GET", "/", "", String::new(), 200),
    ];
    for (method, route, name, body, status) in calls {
        let named = ["{name}", "{external_id}", "{owner}"];
        let mut path = named.iter().fold(route.to_owned(), |path, parameter| {
            path.replace(parameter, name)
        });
        if !route.contains('{') {
            path.push_str(name);
        }
        let answer = server.call(method, &path, &body).await;
        contract.holds(method, route, answer.is(status));
    }
}

/// On every call of the contract.
#[tokio::test]
async fn refusals_of_foreign_callers_are_those_of_the_contract() {
    let contract = Contract::read();
    let server = Server::start().await;
    for (route, item) in contract.0["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            if method == "parameters" {
                continue;
            }
            let method = method.to_uppercase();
            let call = || {
                let path = route.replace("{pattern}", "any*").replace(['{', '}'], "");
                hyper::Request::builder().method(&*method).uri(path)
            };
            let foreign = call().header("origin", "http://evil.example");
            let answer = server.send(foreign, "").await;
            contract.holds(&method, route, answer.is(403));
            let rebound = call().header("host", "evil.example");
            let answer = server.send(rebound, "").await;
            contract.holds(&method, route, answer.is(421));
            if operation["responses"]["415"].is_object() {
                let text = call().header("content-type", "text/plain");
                let answer = server.send(text, "{}").await;
                contract.holds(&method, route, answer.is(415));
            }
        }
    }
}

#[tokio::test]
async fn openapi_json_is_served() {
    let server = Server::start().await;
    let given: Value = server.get("/openapi.json").await.is(200).json();
    assert_eq!(given["openapi"], "3.1.0");
}

#[test]
fn the_contracts_own_examples_are_valid() {
    let contract = Contract::read();
    let mut examples = 0;
    for item in contract.0["paths"].as_object().unwrap().values() {
        for operation in item.as_object().unwrap().values() {
            let content = &operation["requestBody"]["content"]["application/json"];
            if content.is_object() {
                assert_eq!(
                    contract.errors(&content["schema"], &content["example"]),
                    [""; 0]
                );
                examples += 1;
            }
        }
    }
    assert_eq!(examples, 7);
}

/// A checker is itself checked.
#[test]
fn a_member_that_the_contract_does_not_name_is_seen() {
    let contract = Contract::read();
    let schema = json!({"$ref": "#/components/schemas/Permit"});
    let permit = json!({"semaphore": "a", "count": 1, "fence": 1, "slots": null});
    assert!(contract.errors(&schema, &permit).is_empty());
    let with = json!({"semaphore": "a", "count": 1, "fence": 1, "slots": null, "weight": 1});
    assert_eq!(contract.errors(&schema, &with).len(), 1);
    assert_eq!(
        contract
            .errors(
                &schema,
                &json!({"semaphore": "a", "count": 0, "fence": 1, "slots": null})
            )
            .len(),
        1
    );
}
