//! The service that the conformance suite of the Model Context Protocol expects, on the transport of
//! `ledger serve --http`: `conformance ADDRESS` serves it at `/mcp`.
//!
//! What it answers is prescribed by the suite and says nothing about ledgers. It shows that sessions, streams,
//! notifications and requests to the client work through our connections and checks.

#![allow(
    deprecated,
    clippy::wildcard_imports,
    clippy::indexing_slicing,
    clippy::needless_pass_by_value,
    reason = "the suite also tests what newer versions left out, and JSON of our own has the members"
)]

use std::time::Duration;

use rmcp::ErrorData;
use rmcp::handler::server::ServerHandler;
use rmcp::model::*;
use rmcp::service::{Peer, RequestContext, RoleServer};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// A picture of one pixel.
const PNG: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg==";

/// A sound without samples.
const WAV: &str = "UklGRiQAAABXQVZFZm10IBAAAAABAAEARKwAAIhYAQACABAAZGF0YQAAAAA=";

const PAUSE: Duration = Duration::from_millis(50);

#[derive(Debug, Clone)]
struct Prescribed;

/// A value of the protocol from its JSON.
fn from<T: DeserializeOwned>(value: Value) -> Result<T, ErrorData> {
    serde_json::from_value(value)
        .map_err(|error| ErrorData::internal_error(error.to_string(), None))
}

fn text(text: impl Into<String>) -> Value {
    json!({"content": [{"type": "text", "text": text.into()}]})
}

/// The schema of a form with text fields.
fn fields(properties: Value, required: &[&str]) -> Value {
    json!({"type": "object", "properties": properties, "required": required})
}

/// The tools, with the schemas of their arguments.
fn tools() -> Value {
    let names = [
        "test_simple_text",
        "test_image_content",
        "test_audio_content",
        "test_embedded_resource",
        "test_multiple_content_types",
        "test_tool_with_logging",
        "test_error_handling",
        "test_tool_with_progress",
        "test_elicitation_sep1034_defaults",
        "test_elicitation_sep1330_enums",
    ];
    let plain =
        |name| json!({"name": name, "description": name, "inputSchema": {"type": "object"}});
    let with_text = |name: &str, field: &str| {
        let schema = fields(json!({field: {"type": "string"}}), &[field]);
        json!({"name": name, "description": name, "inputSchema": schema})
    };
    let mut tools: Vec<Value> = names.into_iter().map(plain).collect();
    tools.push(with_text("test_sampling", "prompt"));
    tools.push(with_text("test_elicitation", "message"));
    tools.push(json!({
        "name": "json_schema_2020_12_tool",
        "description": "A tool whose schema uses keywords of JSON Schema 2020-12",
        "inputSchema": {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "type": "object",
            "$defs": {"address": {"type": "object", "properties": {
                "street": {"type": "string"}, "city": {"type": "string"}
            }}},
            "properties": {"name": {"type": "string"}, "address": {"$ref": "#/$defs/address"}},
            "additionalProperties": false
        }
    }));
    json!({ "tools": tools })
}

/// Ask the user of the client. Returns what the tool reports about it.
async fn ask(peer: &Peer<RoleServer>, message: &str, schema: Value) -> Result<Value, ErrorData> {
    let params = from(json!({"mode": "form", "message": message, "requestedSchema": schema}))?;
    let request = ServerRequest::ElicitRequest(ElicitRequest::new(params));
    match peer.send_request(request).await {
        Ok(ClientResult::ElicitResult(result)) => {
            let content = json!(result.content.unwrap_or_default());
            let action = json!(result.action);
            Ok(text(format!("Elicitation completed: action={action}, content={content}")))
        }
        other => Err(ErrorData::internal_error(format!("no answer: {other:?}"), None)),
    }
}

fn defaults() -> Value {
    fields(
        json!({
            "name": {"type": "string", "default": "John Doe"},
            "age": {"type": "integer", "default": 30},
            "score": {"type": "number", "default": 95.5},
            "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
            "verified": {"type": "boolean", "default": true}
        }),
        &[],
    )
}

fn choices() -> Value {
    let titled = |noun: &str| {
        let option = |(number, ordinal)| json!({"const": format!("value{number}"), "title": format!("{ordinal} {noun}")});
        [(1, "First"), (2, "Second"), (3, "Third")].map(option)
    };
    let plain = ["option1", "option2", "option3"];
    fields(
        json!({
            "untitledSingle": {"type": "string", "enum": plain},
            "titledSingle": {"type": "string", "oneOf": titled("Option")},
            "legacyEnum": {
                "type": "string",
                "enum": ["opt1", "opt2", "opt3"],
                "enumNames": ["Option One", "Option Two", "Option Three"]
            },
            "untitledMulti": {"type": "array", "items": {"type": "string", "enum": plain}},
            "titledMulti": {"type": "array", "items": {"anyOf": titled("Choice")}}
        }),
        &[],
    )
}

impl Prescribed {
    async fn result(
        &self,
        request: CallToolRequestParams,
        context: &RequestContext<RoleServer>,
    ) -> Result<Value, ErrorData> {
        let peer = &context.peer;
        let argument = |name: &str| {
            let value = request.arguments.as_ref().and_then(|all| all.get(name)?.as_str());
            value.unwrap_or_default().to_owned()
        };
        let lost = |error| ErrorData::internal_error(format!("the client is gone: {error}"), None);
        let image = json!({"type": "image", "data": PNG, "mimeType": "image/png"});
        Ok(match &*request.name {
            "test_simple_text" => text("This is a simple text response for testing."),
            "test_image_content" => json!({"content": [image]}),
            "test_audio_content" => {
                json!({"content": [{"type": "audio", "data": WAV, "mimeType": "audio/wav"}]})
            }
            "test_embedded_resource" => json!({"content": [{"type": "resource", "resource": {
                "uri": "test://embedded-resource",
                "mimeType": "text/plain",
                "text": "This is an embedded resource content."
            }}]}),
            "test_multiple_content_types" => json!({"content": [
                {"type": "text", "text": "Multiple content types test:"},
                image,
                {"type": "resource", "resource": {
                    "uri": "test://mixed-content-resource",
                    "mimeType": "application/json",
                    "text": json!({"test": "data", "value": 123}).to_string()
                }}
            ]}),
            "test_tool_with_logging" => {
                let messages = ["started", "processing data", "completed"];
                for message in messages.map(|message| json!(format!("Tool execution {message}"))) {
                    let params = json!({"level": "info", "data": message});
                    let notification = ServerNotification::LoggingMessageNotification(
                        LoggingMessageNotification::new(from(params)?),
                    );
                    peer.send_notification(notification).await.map_err(lost)?;
                    tokio::time::sleep(PAUSE).await;
                }
                text("It has logged three messages.")
            }
            "test_error_handling" => {
                let mut result = text("This tool intentionally returns an error for testing");
                result["isError"] = true.into();
                result
            }
            "test_tool_with_progress" => {
                for progress in [0.0, 50.0, 100.0] {
                    if let Some(token) = context.meta.get_progress_token() {
                        let params =
                            ProgressNotificationParam::new(token, progress).with_total(100.0);
                        let notification = ServerNotification::ProgressNotification(
                            ProgressNotification::new(params),
                        );
                        peer.send_notification(notification).await.map_err(lost)?;
                    }
                    tokio::time::sleep(PAUSE).await;
                }
                text("It has reported its progress.")
            }
            "test_sampling" => {
                let message = json!({"role": "user", "content": {"type": "text", "text": argument("prompt")}});
                let params = from(json!({"messages": [message], "maxTokens": 100}))?;
                let request =
                    ServerRequest::CreateMessageRequest(CreateMessageRequest::new(params));
                match peer.send_request(request).await {
                    Ok(ClientResult::CreateMessageResult(result)) => {
                        text(format!("LLM response: {}", json!(result.message.content)))
                    }
                    other => {
                        return Err(ErrorData::internal_error(
                            format!("no answer: {other:?}"),
                            None,
                        ));
                    }
                }
            }
            "test_elicitation" => {
                let properties = json!({
                    "username": {"type": "string", "description": "User's response"},
                    "email": {"type": "string", "description": "User's email address"}
                });
                ask(peer, &argument("message"), fields(properties, &["username", "email"])).await?
            }
            "test_elicitation_sep1034_defaults" => {
                ask(peer, "Check the defaults", defaults()).await?
            }
            "test_elicitation_sep1330_enums" => ask(peer, "Choose", choices()).await?,
            "json_schema_2020_12_tool" => text("Its schema is what matters."),
            name => {
                return Err(ErrorData::invalid_params(format!("there is no tool `{name}`"), None));
            }
        })
    }
}

impl ServerHandler for Prescribed {
    fn get_info(&self) -> ServerConfig {
        let capabilities = from(json!({
            "tools": {}, "logging": {}, "completions": {}, "prompts": {},
            "resources": {"subscribe": true}
        }));
        ServerConfig::new(capabilities.expect("they are capabilities"))
            .with_server_info(Implementation::new("conformance", "1"))
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        from(tools())
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let result: CallToolResult = from(self.result(request, &context).await?)?;
        Ok(result.into())
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        from(json!({"resources": [
            {"uri": "test://static-text", "name": "text", "description": "A text", "mimeType": "text/plain"},
            {"uri": "test://static-binary", "name": "picture", "description": "A picture", "mimeType": "image/png"}
        ]}))
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        from(json!({"resourceTemplates": [
            {"uriTemplate": "test://template/{id}/data", "name": "data", "mimeType": "application/json"}
        ]}))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let uri = request.uri;
        let id = uri.strip_prefix("test://template/").and_then(|rest| rest.strip_suffix("/data"));
        let mut content = match (&*uri, id) {
            ("test://static-text", _) => {
                json!({"mimeType": "text/plain", "text": "This is the content of the static text resource."})
            }
            ("test://static-binary", _) => json!({"mimeType": "image/png", "blob": PNG}),
            (_, Some(id)) => {
                let data =
                    json!({"id": id, "templateTest": true, "data": format!("Data for ID: {id}")});
                json!({"mimeType": "application/json", "text": data.to_string()})
            }
            _ => return Err(ErrorData::resource_not_found(uri, None)),
        };
        content["uri"] = uri.into();
        let result: ReadResourceResult = from(json!({"contents": [content]}))?;
        Ok(result.into())
    }

    async fn subscribe(
        &self,
        _: SubscribeRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        Ok(())
    }

    async fn unsubscribe(
        &self,
        _: UnsubscribeRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        Ok(())
    }

    async fn set_level(
        &self,
        _: SetLevelRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        Ok(())
    }

    async fn list_prompts(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        let prompt = |(name, arguments): (&str, &[&str])| {
            let argument =
                |name: &&str| json!({"name": name, "description": name, "required": true});
            let arguments: Vec<_> = arguments.iter().map(argument).collect();
            json!({"name": name, "description": name, "arguments": arguments})
        };
        let prompts: [(&str, &[&str]); 4] = [
            ("test_simple_prompt", &[]),
            ("test_prompt_with_arguments", &["arg1", "arg2"]),
            ("test_prompt_with_embedded_resource", &["resourceUri"]),
            ("test_prompt_with_image", &[]),
        ];
        from(json!({"prompts": prompts.map(prompt)}))
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let arguments = json!(request.arguments.unwrap_or_default());
        let argument = |name: &str| arguments[name].as_str().unwrap_or_default().to_owned();
        let of_user = |content: Value| json!({"role": "user", "content": content});
        let said = |text: String| of_user(json!({"type": "text", "text": text}));
        let messages = match &*request.name {
            "test_simple_prompt" => vec![said("This is a simple prompt for testing.".into())],
            "test_prompt_with_arguments" => {
                let (first, second) = (argument("arg1"), argument("arg2"));
                vec![said(format!("Prompt with arguments: arg1='{first}', arg2='{second}'"))]
            }
            "test_prompt_with_embedded_resource" => vec![
                of_user(json!({"type": "resource", "resource": {
                    "uri": argument("resourceUri"),
                    "mimeType": "text/plain",
                    "text": "Embedded resource content for testing."
                }})),
                said("Please process the embedded resource above.".into()),
            ],
            "test_prompt_with_image" => vec![
                of_user(json!({"type": "image", "data": PNG, "mimeType": "image/png"})),
                said("Please analyze the image above.".into()),
            ],
            name => {
                return Err(ErrorData::invalid_params(
                    format!("there is no prompt `{name}`"),
                    None,
                ));
            }
        };
        let result: GetPromptResult = from(json!({"messages": messages}))?;
        Ok(result.into())
    }
}

fn main() -> std::io::Result<()> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:4100".to_owned());
    let address = address.parse().map_err(std::io::Error::other)?;
    plan_ledger_cli::serve_router(address, plan_ledger_cli::tool_router(|| Prescribed))
}
