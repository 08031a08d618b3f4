//! Query parameters: those that a call takes, once each, and no others.

use crate::server::Server;
use serde_json::Value;

/// Every call of the API, with its path and a body where it takes one.
fn calls() -> Vec<(String, String, &'static str)> {
    let contract: Value = serde_json::from_str(lockhouse_server::OPENAPI).unwrap();
    let paths = contract["paths"].as_object().unwrap().iter();
    let paths = paths.filter(|(path, _)| path.starts_with("/v1/"));
    let calls = paths.flat_map(|(path, item)| {
        let methods = item.as_object().unwrap().iter();
        let methods = methods.filter(|(method, _)| *method != "parameters");
        methods.map(move |(method, operation)| {
            let body = match operation["requestBody"].is_object() {
                true => "{}",
                false => "",
            };
            let path = path.replace("{pattern}", "any*").replace(['{', '}'], "");
            (method.to_uppercase(), path, body)
        })
    });
    calls.collect()
}

#[tokio::test]
async fn an_unknown_query_parameter_is_refused_by_every_call_of_the_api() {
    let server = Server::start().await;
    let calls = calls();
    assert!(calls.len() >= 12, "{calls:?}");
    for (method, path, body) in calls {
        for (query, field) in [
            ("x=1", "x"),
            ("X", "X"),
            ("limits=1", "limits"),
            ("Force=true", "Force"),
            ("%66orced=true", "forced"),
            ("=", ""),
            ("&&=1", ""),
            ("x=%FF", "query"),
            ("x=%zz", "query"),
            ("x=50%", "query"),
            ("%4=1", "query"),
        ] {
            let answer = server.call(&method, &format!("{path}?{query}"), body).await;
            let problem = answer.is_problem(400, "invalid_request");
            assert_eq!(problem["field"], field, "{method} {path} {query}");
        }
    }
}

#[tokio::test]
async fn the_refusal_names_the_parameters_that_there_are() {
    let server = Server::start().await;
    let refused = async |path: &str| {
        let problem = server.get(path).await.is_problem(400, "invalid_request");
        problem["detail"].as_str().unwrap().to_owned()
    };
    assert_eq!(
        refused("/v1/requests?owners=a").await,
        "owners is not a parameter of this call, which takes owner, semaphore, cursor, limit"
    );
    assert_eq!(
        refused("/v1/semaphores/a?limit=1").await,
        "limit is not a parameter of this call, which takes none"
    );
}

#[tokio::test]
async fn a_query_parameter_that_comes_twice_is_refused() {
    let server = Server::start().await;
    for (path, field) in [
        ("/v1/requests?owner=a&owner=a", "owner"),
        ("/v1/requests?owner=a&limit=1&%6Fwner=b", "owner"),
        ("/v1/semaphores?cursor=YQ&cursor=YQ", "cursor"),
        ("/v1/semaphores/a/history?limit=1&limit=2", "limit"),
    ] {
        let problem = server.get(path).await.is_problem(400, "invalid_request");
        assert_eq!(problem["field"], field, "{path}");
    }
}

/// A filter that is not decoded as the caller meant it would list others' requests, or none.
#[tokio::test]
async fn a_percent_sign_that_begins_no_escape_is_malformed() {
    let server = Server::start().await;
    for query in [
        "owner=%",
        "owner=50%25%",
        "semaphore=%zz",
        "owner=a%2",
        "limit=%",
    ] {
        let answer = server.get(&format!("/v1/requests?{query}")).await;
        let problem = answer.is_problem(400, "invalid_request");
        assert_eq!(problem["field"], "query", "{query}");
    }
}

#[tokio::test]
async fn an_empty_query_is_accepted() {
    let server = Server::start().await;
    for path in ["/v1/requests?", "/v1/requests?&", "/v1/semaphores?limit=1&"] {
        server.get(path).await.is(200);
    }
}

/// Probes and scrapers add parameters of their own.
#[tokio::test]
async fn query_parameters_are_ignored_outside_of_v1() {
    let server = Server::start().await;
    for path in ["/", "/healthz", "/readyz", "/metrics", "/openapi.json"] {
        server.get(&format!("{path}?x=1")).await.is(200);
    }
}
