//! The description of the interface in `OpenAPI` 3.1, generated from the operations and the published types. Only tests
//! generate it: the program has the published text, `format/http.openapi.json`.
//!
//! Every part that a client needs a type for is a named schema: each request (`PauseRequest`), its body without the
//! members that the path has (`PauseBody`), each line of an answer (`PausedLine`), and the answer of each operation
//! with its lines (`PauseAnswer`). The name of an operation never changes: that of a request is its `act`.

#![expect(clippy::indexing_slicing, reason = "only tests generate the document")]

use std::collections::{BTreeMap, BTreeSet};

use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use crate::requests::{self, HttpOperation, Request};

use super::operations::{AtRecord, READS, Read, WRITES, Write, method_word};
use super::page;
use super::problem::ProblemDocument;
use super::records::QUERY;

/// The published lines, which another test compares with the types.
const LINES: &str = include_str!("../../../../../format/json-lines.schema.json");

const SCHEMAS: &str = "#/components/schemas/";

/// Lines that any view may print: about which record it is, and what cannot be read.
const LINES_OF_VIEWS: &[&str] =
    &["inspect.as_of", "inspect.damage", "inspect.lost", "inspect.rolled_back", "any.error"];

/// The groups of the operations.
const TAGS: &[(&str, &str)] = &[
    ("runs", "Runs, their state, budgets and variables"),
    ("plans", "Versions of plans, and requests for new ones"),
    ("steps", "Steps, and decisions about them"),
    ("claims", "The work of workers: claims, receipts, side effects"),
    ("questions", "What waits for people"),
    ("log", "Records, the files of the log, and checks of them"),
    ("server", "The page, health and metrics"),
];

/// The document.
fn openapi() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.definitions_path = "/components/schemas".into();
    });
    let mut generator = settings.into_generator();
    let requests = Requests::of(&generator.subschema_for::<Request>().to_value(), || {
        generator.clone().take_definitions(true)
    });
    let mut generator = generator;
    generator.subschema_for::<ProblemDocument>();
    let mut schemas: Map<String, Value> = generator.take_definitions(true);
    schemas.values_mut().for_each(without_defaults);
    schemas.insert("Request".to_owned(), requests.any());
    for (act, schema) in &requests.0 {
        schemas.insert(format!("{}Request", camel(act)), schema.clone());
    }
    let lines = Lines::of(&schemas);
    schemas.insert("Answer".to_owned(), lines.any_answer());
    let mut paths = Paths::default();
    for operation in WRITES.iter() {
        let act = operation.act.as_str();
        let body = format!("{}Body", camel(act));
        let members = requests.body(operation);
        let described = described(operation, &members, &body);
        schemas.insert(body, members);
        schemas.insert(format!("{}Answer", camel(act)), lines.answer_to(act));
        paths.add(operation.of.path, method_word(operation.of.method), described);
    }
    for operation in READS {
        schemas.insert(answer_name(operation.id), lines.view(operation));
        paths.add(operation.path, "GET", described_view(operation));
    }
    schemas.extend(lines.schemas);
    let schemas = with_named_variants(with_enums(schemas));
    paths.add("/v1/records", "GET", described_records());
    let raw = json!({
        "operationId": "request",
        "tags": ["server"],
        "summary": "Make any request of the socket",
        "parameters": [key_header()],
        "requestBody": json_body("Request", true),
        "responses": responses(&[("200", answer("Done", "Answer"))]),
    });
    paths.add("/v1/requests", "POST", raw);
    paths.add("/v1/page", "GET", described_page());
    for (id, path, kind, what) in [
        ("getLivePage", "/", "text/html", "The live page for a browser, which asks for a token"),
        ("getHealth", "/v1/health", "text/plain", "Whether the server runs"),
        ("getReadiness", "/v1/ready", "text/plain", "Whether records can be written"),
        ("getMetrics", "/metrics", "application/openmetrics-text", "The metrics for a monitor"),
        ("getDescription", "/openapi.json", "application/json", "This document"),
    ] {
        let schema =
            if kind == "application/json" { json!({}) } else { json!({ "type": "string" }) };
        let ok = json!({ "description": what, "content": { kind: { "schema": schema } } });
        let responses = responses(&[("200", ok)]);
        let mut described = json!({
            "operationId": id, "tags": ["server"], "summary": what, "responses": responses,
        });
        if let Some(members) = described.as_object_mut().filter(|_| path != "/metrics") {
            // It needs no token.
            members.insert("security".to_owned(), json!([]));
        }
        paths.add(path, "GET", described);
    }
    let tags = TAGS.iter().map(|(name, what)| json!({ "name": name, "description": what }));
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "plan-ledger",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "The requests and views of a ledger. format/http.md describes it.",
            "license": { "name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0" },
        },
        "servers": [{
            "url": "/",
            "description": "The server that gives this document: `address` in the ledger's `http.json`",
        }],
        "tags": tags.collect::<Vec<_>>(),
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

/// The schema of each request, by its `act`.
#[derive(Debug)]
struct Requests(BTreeMap<String, Value>);

impl Requests {
    /// The variants of the type of requests. It is a reference if the generator has it among its definitions.
    fn of(request: &Value, definitions: impl Fn() -> Map<String, Value>) -> Self {
        let request = match request.get("$ref") {
            Some(_) => definitions()["Request"].clone(),
            None => request.clone(),
        };
        let variants = request["oneOf"].as_array().expect("the variants of a request").iter();
        let named = variants.map(|schema| {
            let act = schema["properties"]["act"]["const"].as_str().expect("its word");
            let mut schema = schema.clone();
            without_defaults(&mut schema);
            (act.to_owned(), schema)
        });
        Self(named.collect())
    }

    /// Any request, which its member `act` names.
    fn any(&self) -> Value {
        let names: Vec<_> =
            self.0.keys().map(|act| (act.clone(), format!("{}Request", camel(act)))).collect();
        variants("act", &names)
    }

    /// The members of a request that the path does not give.
    fn body(&self, operation: &Write) -> Value {
        let path = operation.of.path;
        let mut schema = self.0[&operation.act].clone();
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
}

/// The lines of answers, with the types that they refer to, as schemas with names of their own.
#[derive(Debug)]
struct Lines {
    schemas: Map<String, Value>,
    /// The schema of each line, by its name in `json-lines.schema.json`.
    names: BTreeMap<String, String>,
    /// The lines of the answer to each request.
    of_requests: BTreeMap<String, Vec<String>>,
}

impl Lines {
    /// The lines of all operations beside the schemas of the requests.
    fn of(requests: &Map<String, Value>) -> Self {
        let published: Value =
            serde_json::from_str(LINES).expect("a test compares it with the types");
        let mut definitions = published["$defs"].as_object().expect("the definitions").clone();
        definitions.values_mut().for_each(without_defaults);
        // Several commands print the same line; the first one stands for it.
        let mut by_word: BTreeMap<&str, String> = BTreeMap::new();
        for (command, word) in requests::lines_of_answers() {
            by_word.entry(word).or_insert_with(|| format!("{command}.{word}"));
        }
        let of_requests: BTreeMap<String, Vec<String>> = requests::rules_and_answers()
            .into_iter()
            .map(|(variant, _, words)| {
                let lines = words.iter().map(|&word| by_word[word].clone());
                (snake(variant), lines.collect())
            })
            .collect();
        let views = READS.iter().flat_map(|operation| operation.lines).chain(LINES_OF_VIEWS);
        let used: BTreeSet<String> =
            of_requests.values().flatten().cloned().chain(views.map(|&it| it.to_owned())).collect();
        let names = names_of_lines(&used, &of_requests, &definitions);
        let mut parts = names_of_parts(&definitions, &used, requests);
        // Inside of another line, a line has no type: it is another schema.
        for own in parts.values_mut().filter(|own| names.values().any(|line| line == *own)) {
            *own = format!("{}Json", own.trim_end_matches("Line"));
        }
        let mut schemas = Map::new();
        for (name, schema) in &definitions {
            let own = names.get(name).or_else(|| parts.get(name));
            if let Some(own) = own {
                schemas.insert(own.clone(), renamed(schema, &parts));
            }
        }
        Self { schemas, names, of_requests }
    }

    /// One of these lines.
    fn one_of(&self, lines: &[&str]) -> Value {
        let named = lines.iter().map(|&line| {
            let (_, word) = line.split_once('.').expect("a command and a type");
            (word.to_owned(), self.names[line].clone())
        });
        variants("type", &named.collect::<Vec<_>>())
    }

    /// The answer of a view, whose own lines come before those of any view with the same type.
    fn view(&self, operation: &Read) -> Value {
        let word = |line: &str| line.split_once('.').map(|(_, word)| word.to_owned());
        let own: Vec<_> = operation.lines.iter().map(|line| word(line)).collect();
        let further = LINES_OF_VIEWS.iter().filter(|line| !own.contains(&word(line)));
        let lines: Vec<_> = operation.lines.iter().chain(further).copied().collect();
        answer_schema(&self.one_of(&lines))
    }

    /// The answer to any request.
    fn any_answer(&self) -> Value {
        let lines: BTreeSet<_> = self.of_requests.values().flatten().map(String::as_str).collect();
        answer_schema(&self.one_of(&lines.into_iter().collect::<Vec<_>>()))
    }

    fn answer_to(&self, act: &str) -> Value {
        let lines: Vec<_> = self.of_requests[act].iter().map(String::as_str).collect();
        answer_schema(&self.one_of(&lines))
    }
}

/// The name of the schema of each line: its type, with its command if another line has this type.
fn names_of_lines(
    used: &BTreeSet<String>,
    of_requests: &BTreeMap<String, Vec<String>>,
    definitions: &Map<String, Value>,
) -> BTreeMap<String, String> {
    let is_of_request = |line: &String| of_requests.values().flatten().any(|it| it == line);
    let name = |line: &String| {
        let (command, word) = line.split_once('.').expect("a command and a type");
        let is_other = |other: &&String| {
            other.ends_with(&format!(".{word}")) && definitions[*other] != definitions[line]
        };
        let is_taken = used.iter().any(|other| is_other(&other));
        let prefix = if is_taken && !is_of_request(line) { camel(command) } else { String::new() };
        (line.clone(), format!("{prefix}{}Line", camel(word)))
    };
    used.iter().map(name).collect()
}

/// The name of the schema of each part that these lines refer to. A part that requests define in another way has a
/// name of its own.
fn names_of_parts(
    definitions: &Map<String, Value>,
    used: &BTreeSet<String>,
    requests: &Map<String, Value>,
) -> BTreeMap<String, String> {
    let mut needed = BTreeSet::new();
    let mut open: Vec<String> = used.iter().cloned().collect();
    while let Some(name) = open.pop() {
        for part in references(&definitions[&name]) {
            if needed.insert(part.clone()) {
                open.push(part);
            }
        }
    }
    // Two definitions are the same if their texts are, and those that they refer to.
    let mut differing: BTreeSet<String> = needed
        .iter()
        .filter(|part| {
            let same: BTreeMap<_, _> =
                needed.iter().map(|part| (part.clone(), camel(part))).collect();
            let own = renamed(&definitions[*part], &same);
            requests.get(&camel(part)).is_some_and(|other| *other != own)
        })
        .cloned()
        .collect();
    loop {
        let more: Vec<String> = needed
            .iter()
            .filter(|part| !differing.contains(*part) && requests.contains_key(&camel(part)))
            .filter(|part| references(&definitions[*part]).iter().any(|it| differing.contains(it)))
            .cloned()
            .collect();
        if more.is_empty() {
            break;
        }
        differing.extend(more);
    }
    let name = |part: String| {
        let own = camel(&part);
        let own = if differing.contains(&part) { format!("{own}View") } else { own };
        (part, own)
    };
    needed.into_iter().map(name).collect()
}

/// The definitions that a schema refers to.
fn references(schema: &Value) -> Vec<String> {
    match schema {
        Value::Object(members) => {
            let own = members.get("$ref").and_then(Value::as_str);
            let own = own.and_then(|target| target.strip_prefix("#/$defs/")).map(str::to_owned);
            own.into_iter().chain(members.values().flat_map(references)).collect()
        }
        Value::Array(items) => items.iter().flat_map(references).collect(),
        _ => Vec::new(),
    }
}

/// A schema whose references are those of this document.
fn renamed(schema: &Value, names: &BTreeMap<String, String>) -> Value {
    match schema {
        Value::Object(members) => {
            let member = |(key, value): (&String, &Value)| {
                let target = value.as_str().filter(|_| key == "$ref");
                let target = target.and_then(|target| target.strip_prefix("#/$defs/"));
                let value = match target {
                    Some(target) => format!("{SCHEMAS}{}", names[target]).into(),
                    None => renamed(value, names),
                };
                (key.clone(), value)
            };
            members.iter().map(member).collect::<Map<_, _>>().into()
        }
        Value::Array(items) => items.iter().map(|item| renamed(item, names)).collect(),
        _ => schema.clone(),
    }
}

/// One of these schemas, which the value of a member tells apart.
fn variants(member: &str, named: &[(String, String)]) -> Value {
    let mapping: BTreeMap<_, _> =
        named.iter().map(|(word, name)| (word, format!("{SCHEMAS}{name}"))).collect();
    let all: Vec<_> = mapping.values().map(|target| json!({ "$ref": target })).collect();
    json!({ "oneOf": all, "discriminator": { "propertyName": member, "mapping": mapping } })
}

/// Removes the defaults of members: generators of clients take a member with one as always present, also in a request,
/// which may leave it out. `requests.schema.json` has them.
fn without_defaults(schema: &mut Value) {
    match schema {
        Value::Object(members) => {
            members.remove("default");
            for (name, member) in members {
                match member {
                    // Here each name is that of a member, also `default`.
                    Value::Object(named) if name == "properties" => {
                        named.values_mut().for_each(without_defaults);
                    }
                    member => without_defaults(member),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(without_defaults),
        _ => {}
    }
}

/// The schemas, in which alternatives that are words alone are an enumeration: generators make one type of it.
fn with_enums(mut schemas: Map<String, Value>) -> Map<String, Value> {
    for schema in schemas.values_mut() {
        let variants = schema["oneOf"].as_array().cloned().unwrap_or_default();
        let words: Vec<_> = variants.iter().filter_map(|it| it["const"].as_str()).collect();
        if words.is_empty() || words.len() < variants.len() {
            continue;
        }
        let text = |value: &Value| value["description"].as_str().unwrap_or_default().to_owned();
        let lines = variants.iter().zip(&words).filter(|(variant, _)| !text(variant).is_empty());
        let lines = lines.map(|(variant, word)| format!("\n- `{word}`: {}", text(variant)));
        let description = text(schema) + &lines.collect::<String>();
        *schema = json!({ "type": "string", "enum": words, "description": description });
    }
    schemas
}

/// The schemas, in which each variant that is an object has a name: `FallbackValue` of `Fallback`.
fn with_named_variants(schemas: Map<String, Value>) -> Map<String, Value> {
    let mut all = Map::new();
    for (name, mut schema) in schemas {
        if let Some(variants) = schema.get_mut("oneOf").and_then(Value::as_array_mut) {
            let mut mapping = BTreeMap::new();
            let mut tags = BTreeSet::new();
            for (number, variant) in variants.iter_mut().enumerate() {
                let Some(members) = variant.get("properties").and_then(Value::as_object) else {
                    continue;
                };
                let tag = members.iter().find_map(|(tag, it)| Some((tag, it["const"].as_str()?)));
                let word = match tag {
                    Some((_, word)) => camel(word),
                    None if members.len() == 1 => members.keys().map(|name| camel(name)).collect(),
                    None => number.to_string(),
                };
                let own = format!("{name}{word}");
                let target = format!("{SCHEMAS}{own}");
                if let Some((tag, word)) = tag {
                    tags.insert(tag.clone());
                    mapping.insert(word.to_owned(), target.clone());
                }
                let schema = std::mem::replace(variant, json!({ "$ref": target }));
                assert!(all.insert(own.clone(), schema).is_none(), "{own} is there twice");
            }
            let is_told_apart = mapping.len() == variants.len() && tags.len() == 1;
            if let Some(tag) = tags.pop_first().filter(|_| is_told_apart) {
                schema["discriminator"] = json!({ "propertyName": tag, "mapping": mapping });
            }
        }
        assert!(all.insert(name.clone(), schema).is_none(), "{name} is there twice");
    }
    all
}

/// An operation that makes a request.
fn described(operation: &Write, members: &Value, body: &str) -> Value {
    let (act, HttpOperation { path, creates, .. }) = (operation.act.as_str(), operation.of);
    let mut parameters = path_parameters(path);
    parameters.push(key_header());
    match act {
        "claim" => parameters.push(header(
            "Prefer",
            "`wait=30`: wait up to this many seconds, at most 50, for a step",
        )),
        "set" => parameters.push(header("If-Match", "The version of the variable")),
        "review" => parameters.push(header("If-Match", "The hash of the reviewed plan")),
        _ => {}
    }
    let name = format!("{}Answer", camel(act));
    let responses = match act {
        "claim" => responses(&[
            ("200", answer("No more steps follow", &name)),
            ("201", answer("A step", &name)),
            ("204", json!({ "description": "No step is ready now" })),
        ]),
        _ if creates => responses(&[("201", answer("Done", &name))]),
        _ => responses(&[("200", answer("Done", &name))]),
    };
    let is_needed = members["required"].as_array().is_some_and(|names| !names.is_empty());
    // The first sentence of the request's own description.
    let text = members["description"].as_str().unwrap_or_default();
    let summary = text.split(". ").next().unwrap_or_default().trim_end_matches('.');
    json!({
        "operationId": lower(&camel(act)),
        "tags": [tag(path)],
        "summary": summary,
        "parameters": parameters,
        "requestBody": json_body(body, is_needed),
        "responses": responses,
    })
}

/// An operation that prints a view.
fn described_view(operation: &Read) -> Value {
    let mut parameters = path_parameters(operation.path);
    parameters.extend(operation.query.iter().map(|name| option(operation, name)));
    let ok = ("200", answer("The lines of the view", &answer_name(operation.id)));
    let responses = if operation.at == AtRecord::None {
        responses(&[ok])
    } else {
        let what = "The record after which the state is shown";
        parameters.push(query("at", what, &json!({ "type": "integer", "minimum": 0 })));
        parameters.push(header("If-None-Match", "The tag of a response that the client has"));
        responses(&[ok, ("304", json!({ "description": "The client has this response" }))])
    };
    json!({
        "operationId": operation.id,
        "tags": [tag(operation.path)],
        "summary": operation.summary,
        "parameters": parameters,
        "responses": responses,
    })
}

/// A parameter of the query that is an option of the view.
fn option(operation: &Read, name: &str) -> Value {
    let number = json!({ "type": "integer", "minimum": 0 });
    let text = json!({ "type": "string" });
    let (what, schema) = match (operation.id, name) {
        ("listVariables", "after") => ("Only variables after this name", text),
        ("listQuestions", "after") => ("Without this many of the first items", number),
        (_, "after") => ("Only runs after the one with this number", number),
        (_, "limit") => ("At most this many lines", number),
        (_, "version") => ("This version of the plan", number),
        (_, "level") => ("What is checked, as with `ledger verify --level`", text),
        (_, "expect-head") => ("A position that the log must have, as with `ledger verify`", text),
        _ => panic!("the parameter {name} of {} has no description", operation.path),
    };
    query(name, what, &schema)
}

fn described_records() -> Value {
    let text = json!({ "type": "string" });
    let mut parameters: Vec<_> =
        QUERY.iter().map(|(name, what)| query(name, what, &text)).collect();
    parameters.push(header("Last-Event-ID", "The last record that the client has"));
    let content = json!({
        "application/jsonl": { "schema": { "type": "string" } },
        "text/event-stream": { "schema": { "type": "string" } },
    });
    let what = "Records: JSON Lines, or events if the client accepts them";
    let lines = json!({ "description": what, "content": content });
    json!({
        "operationId": "listRecords",
        "tags": ["log"],
        "summary": "The records, once or as they become durable",
        "parameters": parameters,
        "responses": responses(&[("200", lines)]),
    })
}

fn described_page() -> Value {
    let text = json!({ "type": "string" });
    let parameters: Vec<_> =
        page::QUERY.iter().map(|(name, what)| query(name, what, &text)).collect();
    let content = json!({ "text/html": { "schema": { "type": "string" } } });
    let page = json!({ "description": "The page of a run", "content": content });
    json!({
        "operationId": "getPage",
        "tags": ["server"],
        "summary": "A run as a page, as `ledger report` writes it",
        "parameters": parameters,
        "responses": responses(&[("200", page)]),
    })
}

fn key_header() -> Value {
    header("Idempotency-Key", "The key of the request: a repetition under it gets the first answer")
}

/// The body of a request: JSON of a named schema.
fn json_body(name: &str, is_needed: bool) -> Value {
    let schema = json!({ "$ref": format!("{SCHEMAS}{name}") });
    json!({ "required": is_needed, "content": { "application/json": { "schema": schema } } })
}

/// An answer with lines of that schema.
fn answer_schema(line: &Value) -> Value {
    json!({
        "type": "object",
        "description": "The answer, as on the socket",
        "properties": {
            "code": { "type": "integer", "description": "The exit code of the command" },
            "lines": {
                "type": "array",
                "items": line,
                "description": "The result",
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

fn answer(description: &str, name: &str) -> Value {
    let schema = json!({ "$ref": format!("{SCHEMAS}{name}") });
    json!({ "description": description, "content": { "application/json": { "schema": schema } } })
}

fn responses(of: &[(&str, Value)]) -> Value {
    let schema = json!({ "$ref": format!("{SCHEMAS}Problem") });
    let content = json!({ "application/problem+json": { "schema": schema } });
    let problem = json!({ "description": "It was refused, or failed", "content": content });
    let all = of.iter().map(|(status, response)| ((*status).to_owned(), response.clone()));
    all.chain([("default".to_owned(), problem)]).collect::<Map<_, _>>().into()
}

/// The group of an operation.
fn tag(path: &str) -> &'static str {
    let has = |part: &str| path.split('/').any(|it| it == part);
    match () {
        () if has("plan") => "plans",
        () if has("questions") || has("answers") => "questions",
        () if has("steps") => "steps",
        () if has("claims") => "claims",
        () if has("runs") || has("caps") || has("ledger") => "runs",
        () => "log",
    }
}

fn path_parameters(path: &str) -> Vec<Value> {
    let names = path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    let parameter = |name: &str| {
        let (what, kind) = match name {
            "run" => ("The run's name or number", "string"),
            "step" => ("The step's id or number", "string"),
            "name" => ("The variable", "string"),
            "token" => ("The token of the attempt, from the claim", "string"),
            "question" => ("The number of the question", "integer"),
            "seq" => ("The number of the record", "integer"),
            "from" => ("The number of the first record", "integer"),
            "to" => ("The number of the last record", "integer"),
            _ => panic!("the parameter {name} of {path} has no description"),
        };
        json!({
            "name": name, "in": "path", "required": true, "description": what, "schema": { "type": kind },
        })
    };
    names.map(parameter).collect()
}

fn query(name: &str, what: &str, schema: &Value) -> Value {
    json!({ "name": name, "in": "query", "description": what, "schema": schema })
}

fn header(name: &str, what: &str) -> Value {
    json!({ "name": name, "in": "header", "description": what, "schema": { "type": "string" } })
}

/// The name of the answer of a view: `GetRunAnswer`.
fn answer_name(id: &str) -> String {
    format!("{}Answer", camel(id))
}

/// `AddStep` for `add_step`.
fn camel(words: &str) -> String {
    words.split(['_', '.', '-']).map(|word| with_first(word, char::to_ascii_uppercase)).collect()
}

/// `addStep` for `AddStep`.
fn lower(name: &str) -> String {
    with_first(name, char::to_ascii_lowercase)
}

fn with_first(word: &str, change: impl Fn(&char) -> char) -> String {
    let mut letters = word.chars();
    letters.next().map(|first| change(&first)).into_iter().chain(letters).collect()
}

/// `add_step` for `AddStep`.
fn snake(name: &str) -> String {
    let mut words = String::new();
    for letter in name.chars() {
        if letter.is_ascii_uppercase() && !words.is_empty() {
            words.push('_');
        }
        words.push(letter.to_ascii_lowercase());
    }
    words
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

    /// Collects the targets of all references.
    fn targets(part: &Value, found: &mut BTreeSet<String>) {
        match part {
            Value::Object(members) => {
                found.extend(members.get("$ref").and_then(Value::as_str).map(str::to_owned));
                members.values().for_each(|member| targets(member, found));
            }
            Value::Array(items) => items.iter().for_each(|item| targets(item, found)),
            _ => {}
        }
    }

    #[test]
    fn every_operation_has_a_name_a_group_and_typed_answers() {
        let own = openapi();
        let mut ids = BTreeSet::new();
        let groups: BTreeSet<_> = TAGS.iter().map(|(name, _)| *name).collect();
        let mut used = BTreeSet::new();
        for (path, methods) in own["paths"].as_object().unwrap() {
            for (method, operation) in methods.as_object().unwrap() {
                let id = operation["operationId"].as_str().unwrap();
                assert!(ids.insert(id.to_owned()), "{method} {path}: {id} is there twice");
                let tag = operation["tags"][0].as_str().unwrap();
                assert!(groups.contains(tag), "{method} {path}: {tag}");
                used.insert(tag);
            }
        }
        assert_eq!(used, groups);
        for operation in WRITES.iter() {
            let body = &own["components"]["schemas"][format!("{}Body", camel(&operation.act))];
            assert!(body["properties"].is_object(), "{}: {}", operation.of.path, operation.act);
        }
        let mut found = BTreeSet::new();
        targets(&own, &mut found);
        for target in &found {
            let name = target.strip_prefix(SCHEMAS).unwrap();
            assert!(own["components"]["schemas"][name].is_object(), "{target} is missing");
        }
        let unused = own["components"]["schemas"].as_object().unwrap().keys();
        let unused = unused.filter(|name| !found.contains(&format!("{SCHEMAS}{name}")));
        assert_eq!(unused.collect::<Vec<_>>(), Vec::<&String>::new(), "schemas without a use");
    }
}
