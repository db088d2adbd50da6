//! The description of the interface in `OpenAPI` 3.1, generated from the operations and the types of the
//! requests. Only tests generate it: the program has the published text, `format/http.openapi.json`.

use std::collections::BTreeMap;

use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use crate::requests::Request;

use super::operations::{AtRecord, READS, Read, WRITES, Write};
use super::page;
use super::problem::Problem;
use super::records::QUERY;

/// The document.
fn openapi() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.definitions_path = "/components/schemas".into();
    });
    let mut generator = settings.into_generator();
    let request = generator.subschema_for::<Request>().to_value();
    generator.subschema_for::<Problem>();
    let mut schemas: Map<String, Value> = generator.take_definitions(true);
    let bodies = bodies(&schemas);
    schemas.insert("Answer".to_owned(), answer_schema());
    let mut paths = Paths::default();
    for operation in WRITES {
        paths.add(operation.path, operation.method.word(), described(operation, &bodies));
    }
    for operation in READS {
        paths.add(operation.path, "GET", described_view(operation));
    }
    paths.add("/v1/records", "GET", described_records());
    let body =
        json!({ "required": true, "content": { "application/json": { "schema": request } } });
    let raw = json!({
        "operationId": operation_id("POST", "/v1/requests"),
        "summary": "Make any request of the socket",
        "parameters": [key_header()],
        "requestBody": body,
        "responses": responses(&[("200", answer("Done"))]),
    });
    paths.add("/v1/requests", "POST", raw);
    paths.add("/v1/page", "GET", described_page());
    for (path, kind, what) in [
        ("/", "text/html", "The live page for a browser, which asks for a token"),
        ("/v1/health", "text/plain", "Whether the server runs"),
        ("/v1/ready", "text/plain", "Whether records can be written"),
        ("/metrics", "application/openmetrics-text", "The metrics for a monitor"),
        ("/openapi.json", "application/json", "This document"),
    ] {
        let ok = json!({ "description": what, "content": { kind: { "schema": {} } } });
        let id = operation_id("GET", path);
        let responses = responses(&[("200", ok)]);
        let mut described = json!({ "operationId": id, "summary": what, "responses": responses });
        if let Some(members) = described.as_object_mut().filter(|_| path != "/metrics") {
            // It needs no token.
            members.insert("security".to_owned(), json!([]));
        }
        paths.add(path, "GET", described);
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "plan-ledger",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "The requests and views of a ledger. format/http.md describes it.",
            "license": { "name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0" },
        },
        "security": [{ "token": [] }],
        "paths": paths.0,
        "components": {
            "securitySchemes": { "token": { "type": "http", "scheme": "bearer" } },
            "schemas": schemas,
        },
    })
}

/// The paths with their methods.
#[derive(Debug, Default)]
struct Paths(BTreeMap<String, BTreeMap<String, Value>>);

impl Paths {
    fn add(&mut self, path: &str, method: &str, operation: Value) {
        self.0.entry(path.to_owned()).or_default().insert(method.to_lowercase(), operation);
    }
}

/// An operation that makes a request.
fn described(operation: &Write, bodies: &Map<String, Value>) -> Value {
    let mut parameters = path_parameters(operation.path);
    parameters.push(key_header());
    match operation.act {
        "claim" => parameters.push(header(
            "Prefer",
            "`wait=30`: wait up to this many seconds, at most 50, for a step",
        )),
        "set" => parameters.push(header("If-Match", "The version of the variable")),
        "review" => parameters.push(header("If-Match", "The hash of the reviewed plan")),
        _ => {}
    }
    let responses = match operation.act {
        "claim" => responses(&[
            ("200", answer("No more steps follow")),
            ("201", answer("A step")),
            ("204", json!({ "description": "No step is ready now" })),
        ]),
        "propose" | "add_step" | "fork" | "note" => responses(&[("201", answer("Done"))]),
        _ => responses(&[("200", answer("Done"))]),
    };
    let body = body_of(bodies.get(operation.act), operation.path);
    json!({
        "operationId": operation_id(operation.method.word(), operation.path),
        "summary": operation.summary,
        "parameters": parameters,
        "requestBody": { "required": false, "content": { "application/json": { "schema": body } } },
        "responses": responses,
    })
}

/// An operation that prints a view.
fn described_view(operation: &Read) -> Value {
    let mut parameters = path_parameters(operation.path);
    parameters.extend(operation.query.iter().map(|name| query(name, "As the option of the view")));
    let ok = ("200", answer("The lines of the view"));
    let responses = if operation.at == AtRecord::None {
        responses(&[ok])
    } else {
        parameters.push(query("at", "The record after which the state is shown"));
        parameters.push(header("If-None-Match", "The tag of a response that the client has"));
        responses(&[ok, ("304", json!({ "description": "The client has this response" }))])
    };
    json!({
        "operationId": operation_id("GET", operation.path),
        "summary": operation.summary,
        "parameters": parameters,
        "responses": responses,
    })
}

fn described_records() -> Value {
    let mut parameters: Vec<_> = QUERY.iter().map(|(name, what)| query(name, what)).collect();
    parameters.push(header("Last-Event-ID", "The last record that the client has"));
    let content = json!({
        "application/jsonl": { "schema": { "type": "string" } },
        "text/event-stream": { "schema": { "type": "string" } },
    });
    let what = "Records: JSON Lines, or events if the client accepts them";
    let lines = json!({ "description": what, "content": content });
    json!({
        "operationId": operation_id("GET", "/v1/records"),
        "summary": "The records, once or as they become durable",
        "parameters": parameters,
        "responses": responses(&[("200", lines)]),
    })
}

fn described_page() -> Value {
    let parameters: Vec<_> = page::QUERY.iter().map(|(name, what)| query(name, what)).collect();
    let content = json!({ "text/html": { "schema": { "type": "string" } } });
    let page = json!({ "description": "The page of a run", "content": content });
    json!({
        "operationId": operation_id("GET", "/v1/page"),
        "summary": "A run as a page, as `ledger report` writes it",
        "parameters": parameters,
        "responses": responses(&[("200", page)]),
    })
}

fn key_header() -> Value {
    header("Idempotency-Key", "The key of the request: a repetition under it gets the first answer")
}

/// The members of each request.
fn bodies(schemas: &Map<String, Value>) -> Map<String, Value> {
    let requests = schemas.get("Request").and_then(|schema| schema.get("oneOf"));
    let requests = requests.and_then(Value::as_array).into_iter().flatten();
    let named = requests.filter_map(|schema| {
        let act = schema.pointer("/properties/act/const")?.as_str()?;
        Some((act.to_owned(), schema.clone()))
    });
    named.collect()
}

/// The members that the path does not give.
fn body_of(schema: Option<&Value>, path: &str) -> Value {
    let mut schema = schema.cloned().unwrap_or_default();
    let is_given = |name: &str| name == "act" || path.contains(&format!("{{{name}}}"));
    if let Some(members) = schema.get_mut("properties").and_then(Value::as_object_mut) {
        members.retain(|name, _| !is_given(name));
    }
    if let Some(required) = schema.get_mut("required").and_then(Value::as_array_mut) {
        required.retain(|name| !name.as_str().is_some_and(is_given));
        if path == "/v1/claims" {
            // Without a key the server chooses it.
            required.retain(|name| name != "secret");
        }
    }
    schema
}

fn answer_schema() -> Value {
    json!({
        "type": "object",
        "description": "The answer, as on the socket",
        "properties": {
            "code": { "type": "integer", "description": "The exit code of the command" },
            "lines": {
                "type": "array",
                "items": { "type": "object" },
                "description": "The result; json-lines.schema.json describes the lines",
            },
            "said": { "type": "array", "items": { "type": "string" }, "description": "Messages for people" },
            "acked_by": {
                "enum": ["store", "local"],
                "description": "Only if the log is in a store: whether the store has everything that was recorded before the answer",
            },
        },
        "required": ["code", "lines"],
    })
}

fn answer(description: &str) -> Value {
    let schema = json!({ "$ref": "#/components/schemas/Answer" });
    json!({ "description": description, "content": { "application/json": { "schema": schema } } })
}

fn responses(of: &[(&str, Value)]) -> Value {
    let schema = json!({ "$ref": "#/components/schemas/Problem" });
    let content = json!({ "application/problem+json": { "schema": schema } });
    let problem = json!({ "description": "It was refused, or failed", "content": content });
    let all = of.iter().map(|(status, response)| ((*status).to_owned(), response.clone()));
    all.chain([("default".to_owned(), problem)]).collect::<Map<_, _>>().into()
}

fn path_parameters(path: &str) -> Vec<Value> {
    let names = path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    let parameter = |name: &str| json!({ "name": name, "in": "path", "required": true, "schema": { "type": "string" } });
    names.map(parameter).collect()
}

fn query(name: &str, what: &str) -> Value {
    json!({ "name": name, "in": "query", "description": what, "schema": { "type": "string" } })
}

fn header(name: &str, what: &str) -> Value {
    json!({ "name": name, "in": "header", "description": what, "schema": { "type": "string" } })
}

/// `getRunsPlan` for `GET /v1/runs/{run}/plan`.
fn operation_id(method: &str, path: &str) -> String {
    let parts =
        path.split(['/', '.', '{', '}', '-']).filter(|part| !part.is_empty() && *part != "v1");
    let mut id = method.to_lowercase();
    if path == "/" {
        id.push_str("LivePage");
    }
    for part in parts {
        let mut letters = part.chars();
        id.extend(letters.next().map(|first| first.to_ascii_uppercase()));
        id.push_str(letters.as_str());
    }
    id
}

#[cfg(test)]
mod tests {
    //! Goal: the published description, which the server gives, is that of the operations and types.

    use std::path::Path;

    use super::*;

    /// `UPDATE_GOLDEN=1` writes the file again.
    #[test]
    fn published_description_matches_the_operations() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../format/http.openapi.json");
        let own = openapi();
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            std::fs::write(&path, format!("{own:#}\n")).unwrap();
        }
        let published: Value =
            serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
        assert!(published == own, "format/http.openapi.json is stale; run with UPDATE_GOLDEN=1");
    }

    #[test]
    fn every_operation_has_a_request_and_an_identifier_of_its_own() {
        let own = openapi();
        let mut ids = std::collections::BTreeSet::new();
        for (path, methods) in own["paths"].as_object().unwrap() {
            for (method, operation) in methods.as_object().unwrap() {
                let id = operation["operationId"].as_str().unwrap();
                assert!(ids.insert(id.to_owned()), "{method} {path}: {id} is there twice");
            }
        }
        for operation in WRITES {
            let method = operation.method.word().to_lowercase();
            let schema = &own["paths"][operation.path][method.as_str()]["requestBody"]["content"]["application/json"]
                ["schema"];
            assert!(schema["properties"].is_object(), "{}: {}", operation.path, operation.act);
        }
    }
}
