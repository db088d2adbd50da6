//! The protocol: the description of the server, and its lists, calls, resources and prompts.
//!
//! The crate `rmcp` supports both versions: `initialize` up to 2025-11-25, and the stateless 2026-07-28. A call runs on
//! a separate thread, since it reads and writes files and may wait.

use std::cell::Cell;
use std::sync::Arc;

use rmcp::ErrorData;
use rmcp::handler::server::ServerHandler;
use rmcp::model::{
    CacheScope, CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock,
    GetPromptRequestParams, GetPromptResponse, GetPromptResult, Implementation, ListPromptsResult,
    ListResourceTemplatesResult, ListResourcesResult, ListToolsResult, PaginatedRequestParams,
    Prompt, PromptMessage, ReadResourceRequestParams, ReadResourceResponse, ReadResourceResult,
    Resource, ResourceContents, ResourceTemplate, Role as Speaker, ServerCapabilities,
    ServerConfig, Tool, ToolAnnotations,
};
use rmcp::service::{RequestContext, RoleServer};
use serde_json::{Map, Value};

use crate::protocol::in_ledger;
use crate::requests::Role;

use super::call::{ToolCall, ToolOutcome, ToolRefusal, ToolServer};
use super::forms::{FORMS_MAX, Form, FormChannel, PersonAnswers, person_answers};
use super::prompts::PROMPTS;
use super::resources::{RESOURCES, TEMPLATES, read_resource};
use super::result::{RESULT_LENGTH_MAX, fitted, page};
use super::tools::{LedgerTool, TOOLS, ToolEffect, tools_of};

/// The text that a model reads before it sees a tool: hosts with many tools show nothing else.
const INSTRUCTIONS: &str = "\
A crash-safe plan that survives compactions and restarts. Loop: ledger_status -> ledger_claim -> do the \
step -> ledger_report. A step is done when the ledger accepts it, not when you say so. A claim has one \
winner and a lease: renew it with ledger_heartbeat, or give it back with ledger_release. Repeating a call \
is safe. Decisions of people are theirs: ask the user, and record them with ledger_answer.";

/// How long lists and reads may be treated as fresh, in milliseconds.
const LIST_TTL: u64 = 3_600_000;
const READ_TTL: u64 = 1_000;

/// The longest text of a rejection.
const REFUSAL_LENGTH_MAX: usize = 4 << 10;

/// Answers the requests of one client.
#[derive(Debug, Clone)]
pub(crate) struct LedgerService {
    server: Arc<ToolServer>,
}

impl LedgerService {
    pub(super) fn new(server: Arc<ToolServer>) -> Self {
        Self { server }
    }
}

/// The tools of a role, as the protocol lists them.
pub(super) fn tool_list(role: Role) -> Vec<Tool> {
    tools_of(role).map(|tool| listed(tool, tool.schema())).collect()
}

/// A tool with this schema of its arguments, as the protocol lists it.
pub(super) fn listed(tool: &LedgerTool, schema: Arc<Map<String, Value>>) -> Tool {
    let effect = tool.effect;
    let hints = ToolAnnotations::new().open_world(false);
    let hints = match effect {
        ToolEffect::Reads => hints.read_only(true),
        ToolEffect::Adds => hints.destructive(false),
        ToolEffect::AddsOnce => hints.destructive(false).idempotent(true),
        ToolEffect::Replaces => hints.destructive(true),
    };
    Tool::new(tool.name, tool.description, schema).with_annotations(hints)
}

impl ServerHandler for LedgerService {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_resources()
            .enable_prompts()
            .build();
        ServerConfig::new(capabilities)
            .with_server_info(Implementation::new("plan-ledger", env!("CARGO_PKG_VERSION")))
            .with_instructions(INSTRUCTIONS)
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let tools = tool_list(self.server.role);
        let list = ListToolsResult::with_all_items(tools);
        Ok(list.with_ttl_ms(LIST_TTL).with_cache_scope(CacheScope::Private))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        tools_of(self.server.role)
            .find(|tool| tool.name == name)
            .map(|tool| listed(tool, tool.schema()))
    }

    async fn call_tool(
        &self,
        mut request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let Some(tool) = TOOLS.iter().find(|tool| tool.name == request.name) else {
            let names: Vec<_> = tools_of(self.server.role).map(|tool| tool.name).collect();
            let message =
                format!("there is no tool `{}`; the tools are: {}", request.name, names.join(", "));
            return Err(ErrorData::invalid_params(message, None));
        };
        let channel = FormChannel::of(&context);
        let mut answers = person_answers(&mut request);
        let arguments = request.arguments.unwrap_or_default();
        loop {
            let can_ask = channel.can_ask() && answers.len() < FORMS_MAX;
            let (outcome, form) =
                self.execute(tool, arguments.clone(), answers.clone(), can_ask, &context).await?;
            match (form, &channel) {
                (Some(form), FormChannel::Repetition) => return Ok(form.input_required().into()),
                (Some(form), FormChannel::Request(peer)) => {
                    answers.insert(form.key.clone(), form.ask(peer).await);
                }
                (Some(_), FormChannel::None) | (None, _) => return Ok(result_of(outcome).into()),
            }
        }
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let resources = RESOURCES.iter().map(|resource| {
            let listed = Resource::new(resource.uri, resource.name);
            listed.with_description(resource.description).with_mime_type("text/plain")
        });
        let list = ListResourcesResult::with_all_items(resources.collect());
        Ok(list.with_ttl_ms(LIST_TTL).with_cache_scope(CacheScope::Private))
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        let templates = TEMPLATES.iter().map(|template| {
            let listed = ResourceTemplate::new(template.uri, template.name);
            listed.with_description(template.description).with_mime_type("text/plain")
        });
        let list = ListResourceTemplatesResult::with_all_items(templates.collect());
        Ok(list.with_ttl_ms(LIST_TTL).with_cache_scope(CacheScope::Private))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let (server, uri) = (Arc::clone(&self.server), request.uri.clone());
        let read = tokio::task::spawn_blocking(move || read_resource(&server, &uri)).await;
        let missing = || format!("there is no resource {}", request.uri);
        match read {
            Ok(Some(Ok(text))) => {
                let (text, _) = page(&text, 0, RESULT_LENGTH_MAX);
                let content =
                    ResourceContents::text(text, request.uri).with_mime_type("text/plain");
                let result = ReadResourceResult::new(vec![content]);
                Ok(result.with_ttl_ms(READ_TTL).with_cache_scope(CacheScope::Private).into())
            }
            Ok(None) => Err(ErrorData::resource_not_found(missing(), None)),
            Ok(Some(Err(refusal))) => {
                let message = format!("{}: {}", missing(), refusal.message);
                Err(ErrorData::resource_not_found(message, None))
            }
            Err(_) => Err(ErrorData::internal_error("the read failed in an unexpected way", None)),
        }
    }

    async fn list_prompts(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        let own = PROMPTS.iter().filter(|prompt| prompt.role <= self.server.role);
        let prompts = own.map(|prompt| Prompt::new(prompt.name, Some(prompt.description), None));
        let list = ListPromptsResult::with_all_items(prompts.collect());
        Ok(list.with_ttl_ms(LIST_TTL).with_cache_scope(CacheScope::Private))
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let mut own = PROMPTS.iter().filter(|prompt| prompt.role <= self.server.role);
        let Some(prompt) = own.find(|prompt| prompt.name == request.name) else {
            let message = format!("there is no prompt `{}`", request.name);
            return Err(ErrorData::invalid_params(message, None));
        };
        let message = PromptMessage::new_text(Speaker::User, prompt.text);
        Ok(GetPromptResult::new(vec![message]).with_description(prompt.description).into())
    }
}

impl LedgerService {
    /// Executes a tool on a separate thread. Also returns the form that the user must see first.
    async fn execute(
        &self,
        tool: &'static LedgerTool,
        arguments: Map<String, Value>,
        answers: PersonAnswers,
        can_ask: bool,
        context: &RequestContext<RoleServer>,
    ) -> Result<(ToolOutcome, Option<Form>), ErrorData> {
        let server = Arc::clone(&self.server);
        let (id, cancelled) = (context.id.to_string(), context.ct.clone());
        let work = move || {
            if tool.role > server.role {
                let what = format!("the tool {}", tool.name);
                return (Err(server.wrong_role(&what, tool.role)), None);
            }
            let is_cancelled = || cancelled.is_cancelled();
            let (is_cancelled, answers) = (&is_cancelled, &answers);
            let (form, is_decided) = (Cell::new(None), Cell::new(false));
            let call =
                ToolCall { server: &server, id, is_cancelled, can_ask, answers, form, is_decided };
            let outcome = (tool.execute)(&call, arguments).map_err(|refusal| {
                let message = in_ledger(&refusal.message, &server.dir);
                ToolRefusal { message, ..refusal }
            });
            (outcome, call.form.take())
        };
        let failed = |_| ErrorData::internal_error("the call failed in an unexpected way", None);
        tokio::task::spawn_blocking(work).await.map_err(failed)
    }
}

/// The result of a call: the same data as text and as structure. A rejection is a text only, since
/// hosts drop the structure of an error.
fn result_of(outcome: ToolOutcome) -> CallToolResult {
    match outcome {
        Ok(answer) => CallToolResult::structured(Value::Object(fitted(answer))),
        Err(refusal) => CallToolResult::error(vec![ContentBlock::text(refusal_text(&refusal))]),
    }
}

fn refusal_text(refusal: &ToolRefusal) -> String {
    let text = format!("rejection: {}\n{}", refusal.rejection, refusal.message);
    page(&text, 0, REFUSAL_LENGTH_MAX).0
}
