//! Forms: a call of an operator that needs a person's decision asks the user, if the client can show a
//! form (elicitation).
//!
//! In the protocol with `initialize` the server sends the form while the call runs. In the stateless one the answer of
//! the call contains the form, and the client repeats the call with the user's input. A client that cannot show forms
//! gets a text about the item that waits for a person.
//!
//! Invariants:
//! - The choice of the person is recorded, not the proposal of the model. Without a choice, nothing is recorded.
//! - The name of a form depends on its content: an answer never counts for another question.
//! - A server for workers shows no forms: workers do not decide.

use std::collections::BTreeMap;
use std::time::Duration;

use rmcp::model::{
    CallToolRequestParams, ClientCapabilities, ClientResult, ElicitRequest, ElicitRequestParams,
    ElicitResult, ElicitationAction, ElicitationCapability, ElicitationSchema, EnumSchema,
    InputRequest, InputRequiredResult, InputResponses, ProtocolVersion, ServerRequest,
};
use rmcp::service::{Peer, PeerRequestOptions, RequestContext, RoleServer};
use serde_json::Value;

/// How long the server waits for the user. Many hosts end a call after a minute.
const FORM_WAIT: Duration = Duration::from_secs(50);

/// How many forms one call may show.
pub(super) const FORMS_MAX: usize = 8;

/// The members of a form.
const ANSWER: &str = "answer";
const NOTE: &str = "note";

/// A question to the user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Form {
    /// Its name, which depends on its whole content.
    pub(super) key: String,
    pub(super) message: String,
    /// The possible answers; empty for a text.
    pub(super) options: Vec<String>,
}

/// The user's reaction to a form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum PersonAnswer {
    Given {
        answer: String,
        note: String,
    },
    /// The user gave no answer, or none in time.
    None,
}

/// The user's reactions to the forms of a call, by their keys.
pub(super) type PersonAnswers = BTreeMap<String, PersonAnswer>;

/// The way in which a client asks its user.
pub(super) enum FormChannel {
    /// The client shows no forms.
    None,
    /// By a request to the client.
    Request(Peer<RoleServer>),
    /// By an answer to the call, which the client repeats.
    Repetition,
}

impl FormChannel {
    /// The way in which the client of a call can ask.
    pub(super) fn of(context: &RequestContext<RoleServer>) -> Self {
        let is_stateless = context
            .protocol_version()
            .is_some_and(|version| version >= ProtocolVersion::V_2026_07_28);
        let of_call = context.meta.client_capabilities();
        let of_session = || Some(context.peer.peer_info()?.capabilities.clone());
        match of_call.or_else(of_session) {
            Some(capabilities) if shows_forms(&capabilities) && is_stateless => Self::Repetition,
            Some(capabilities) if shows_forms(&capabilities) => Self::Request(context.peer.clone()),
            _ => Self::None,
        }
    }

    pub(super) fn can_ask(&self) -> bool {
        !matches!(self, Self::None)
    }
}

/// Whether a client shows forms. Older ones declare elicitation without a mode.
fn shows_forms(capabilities: &ClientCapabilities) -> bool {
    let shows =
        |it: &ElicitationCapability| it.form.is_some() || (it.form.is_none() && it.url.is_none());
    capabilities.elicitation.as_ref().is_some_and(shows)
}

impl Form {
    fn params(self) -> ElicitRequestParams {
        let schema = ElicitationSchema::builder();
        let schema = if self.options.is_empty() {
            schema.required_string(ANSWER)
        } else {
            schema.required_enum_schema(ANSWER, EnumSchema::builder(self.options).build())
        };
        let requested_schema = schema
            .optional_string_with(NOTE, |note| note.description("The reason, for the record"))
            .build()
            .expect("the required member is one of the schema");
        ElicitRequestParams::FormElicitationParams {
            meta: None,
            message: self.message,
            requested_schema,
        }
    }

    /// The answer to a call that needs the user first.
    pub(super) fn input_required(self) -> InputRequiredResult {
        let key = self.key.clone();
        let request = InputRequest::Elicitation(ElicitRequest::new(self.params()));
        InputRequiredResult::from_input_requests(BTreeMap::from([(key, request)]))
    }

    /// Show the form to the user of a session.
    pub(super) async fn ask(self, peer: &Peer<RoleServer>) -> PersonAnswer {
        let request = ServerRequest::ElicitRequest(ElicitRequest::new(self.params()));
        let options = PeerRequestOptions::with_timeout(FORM_WAIT);
        let Ok(sent) = peer.send_cancellable_request(request, options).await else {
            return PersonAnswer::None;
        };
        match sent.await_response().await {
            Ok(ClientResult::ElicitResult(result)) => PersonAnswer::of(result),
            _ => PersonAnswer::None,
        }
    }
}

impl PersonAnswer {
    fn of(result: ElicitResult) -> Self {
        let content = result.content.unwrap_or_default();
        let text = |name: &str| content.get(name).and_then(Value::as_str).map(str::to_owned);
        match (result.action, text(ANSWER)) {
            (ElicitationAction::Accept, Some(answer)) => {
                Self::Given { answer, note: text(NOTE).unwrap_or_default() }
            }
            _ => Self::None,
        }
    }
}

/// The user's input in the forms of an earlier answer to the same call.
pub(super) fn person_answers(request: &mut CallToolRequestParams) -> PersonAnswers {
    let responses: InputResponses = request.input_responses.take().unwrap_or_default();
    let answer = |(key, response)| {
        let result = serde_json::from_value::<ElicitResult>(response).ok();
        (key, result.map_or(PersonAnswer::None, PersonAnswer::of))
    };
    responses.into_iter().map(answer).collect()
}
