//! The requests to the process that has the writer lock, as specified in `format/socket.md`: one file
//! for each, with its members, its help, its rules, the function that executes it, its answer, and the
//! text of the answer. Its members are the options of its command, and what the socket, HTTP and MCP take.
//! The answers of several requests have files of their own: `task`, `nothing`.
//!
//! A request contains names of runs and steps and nothing specific to a machine, so every process
//! executes it with the same result. A new request is one file and one line in the table.

mod actor;
mod add_step;
mod answer;
mod answer_all;
mod answer_line;
mod answer_step;
mod attempt_status;
mod bound_to;
mod budget;
mod cancel;
mod cap;
mod checked_plan;
mod claim;
mod collect_blobs;
mod commands_approval;
mod context;
mod decide;
mod effect;
mod find;
mod fork;
mod gone;
mod judge;
mod kind;
mod members;
mod note;
mod nothing;
mod pause;
mod pending_answer;
mod propose;
mod prune;
mod receipt;
mod release;
mod release_step;
mod renew;
mod request_plan;
mod retry;
mod review;
mod rules;
mod set;
mod skip;
mod snapshot;
mod task;
mod tick;
mod unpause;
mod verdict;
mod withdraw;

pub(crate) use actor::Actor;
pub use add_step::AddStepRequest;
pub use answer::{AnswerAnswer, AnswerRequest};
pub use answer_all::{AnswerAllRequest, NotAnswered};
pub(crate) use answer_line::AnswerLine;
pub use answer_step::AnswerStepRequest;
pub use attempt_status::AttemptStatus;
pub use bound_to::BoundTo;
pub(crate) use budget::BudgetParts;
pub use budget::{BudgetAnswer, BudgetChange, BudgetRequest};
pub use cancel::{CancelAnswer, CancelRequest};
pub use cap::{CapAnswer, CapRequest, PlanCap, Scope, ScopeKind};
pub use checked_plan::CheckedPlan;
pub use claim::{ClaimRequest, RunStep};
pub use collect_blobs::{CollectBlobsAnswer, CollectBlobsRequest};
pub(crate) use context::Origin;
pub use decide::{DecideAnswer, DecideRequest};
pub use effect::{EffectAnswer, EffectRequest, EffectState};
pub use find::StepOfRun;
pub(crate) use find::{
    check_name, default_run, request_command, run_of, run_or_only, step_hint, step_of,
};
pub use fork::{ForkAnswer, ForkRequest};
pub(crate) use gone::GoneLooks;
pub use judge::{JudgeAnswer, JudgeRequest};
pub(crate) use kind::RequestKind;
pub use members::{Author, RunArg, RunOption};
pub(crate) use members::{login_name, parse_author, parse_name};
pub use note::{NoteAnswer, NoteRequest};
pub use nothing::{HeldStep, NothingAnswer};
pub use pause::{PauseAnswer, PauseRequest};
pub(crate) use pending_answer::{PendingAnswer, QUICK_LENGTH_MAX};
pub use propose::{PlannerUse, ProposeAnswer, ProposeRequest};
pub use prune::{PruneAnswer, PruneRequest, PrunedSegments};
pub use receipt::{NextStep, ReceiptAnswer, ReceiptRequest};
pub use release::{ReleaseAnswer, ReleaseRequest, Work};
pub use release_step::ReleaseStepRequest;
pub use renew::{RenewAnswer, RenewRequest};
pub use request_plan::{PlanRequestKind, RequestPlanAnswer, RequestPlanRequest};
pub use retry::{RetryAnswer, RetryRequest};
pub(crate) use review::question_about;
pub use review::{ReviewAnswer, ReviewRequest};
pub use rules::{Effort, HttpMethod, HttpOperation, Repetition, Role, Rules, TokenRule};
pub use set::{SetAnswer, SetRequest};
pub use skip::{SkipAnswer, SkipRequest};
pub use snapshot::{SnapshotAnswer, SnapshotRequest};
pub use task::TaskAnswer;
pub(crate) use task::shortened;
pub use tick::{TickAnswer, TickRequest};
pub use unpause::{UnpauseAnswer, UnpauseRequest};
pub use verdict::VerdictRequest;
pub use withdraw::{WithdrawAnswer, WithdrawRequest};

use std::cell::RefCell;

#[cfg(test)]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use plan_ledger::internals::ledger::CommitOptions;
use plan_ledger::{BatchKey, Ledger, Submitted};

use crate::json::JsonLine;
#[cfg(test)]
use crate::json::PublishedSchema;
use crate::protocol::{Answer, Failure};

use answer_line::answer_of;
use context::RequestContext;
use kind::RequestAnswer;

macro_rules! requests {
    ($($variant:ident($request:ident) => [$($line:ident $(of $($command:ident)+)?),*];)*) => {
        /// One request; the member `act` names its type.
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
        #[cfg_attr(test, derive(JsonSchema))]
        #[serde(tag = "act", rename_all = "snake_case")]
        pub enum Request {
            $($variant($request),)*
        }

        $(
            impl From<$request> for Request {
                fn from(request: $request) -> Self {
                    Self::$variant(request)
                }
            }

            $(
                impl JsonLine for $line {
                    const TYPE: Option<&'static str> = Some(<Self as AnswerLine>::WORD);
                }

                impl RequestAnswer for $line {
                    const TYPES: &'static [&'static str] = &[<Self as AnswerLine>::WORD];

                    fn pending(self) -> PendingAnswer {
                        PendingAnswer::Complete(answer_of(&self))
                    }
                }
            )*
        )*

        impl Request {
            /// The roles that may make the request, and how it may be repeated.
            #[must_use]
            pub fn rules(&self) -> Rules {
                match self {
                    $(Self::$variant(_) => <$request as RequestKind>::RULES,)*
                }
            }

            /// The types of the lines of its answer, if it does not fail.
            #[must_use]
            pub fn answer_types(&self) -> &'static [&'static str] {
                match self {
                    $(Self::$variant(_) => {
                        <$request as RequestKind>::LINES
                    })*
                }
            }

            /// Checks everything that needs no ledger.
            ///
            /// # Errors
            /// `Usage` for an invalid plan.
            pub(crate) fn prepare(&self) -> Result<(), Failure> {
                match self {
                    $(Self::$variant(request) => request.prepare(),)*
                }
            }

            /// Whether its execution takes long on this ledger: then it must not run in the event
            /// loop of a server.
            pub(crate) fn takes_long(&self, ledger: &Ledger) -> Result<bool, Failure> {
                match self {
                    _ if self.rules().effort == Effort::Long => Ok(true),
                    $(Self::$variant(request) => request.takes_long(ledger),)*
                }
            }

            /// The outcome of the request. Not even a rejection may be revealed before
            /// `context.commits` are durable.
            fn run(&self, context: RequestContext<'_, '_>) -> Result<PendingAnswer, Failure> {
                match self {
                    $(Self::$variant(request) => request.run(context).map(RequestAnswer::pending),)*
                }
            }
        }

        /// The rules of each request, by its variant.
        const RULES: &[(&str, Rules)] = &[
            $((stringify!($variant), <$request as RequestKind>::RULES),)*
        ];

        /// The text of a line of an answer; none for a line without a text, or of an unknown type.
        fn text_of(line: &Value) -> Option<String> {
            let word = line.get("type")?.as_str()?;
            $($(
                if word == <$line as AnswerLine>::WORD {
                    return Some($line::deserialize(line).ok()?.to_string());
                }
            )*)*
            None
        }

        /// Adds the lines of answers to the published schema.
        #[cfg(test)]
        pub(crate) fn add_answers(schema: &mut PublishedSchema) {
            $($($($(schema.add::<$line>(stringify!($command));)+)?)*)*
        }

        /// The lines of answers: the command that prints it, and its type.
        #[cfg(test)]
        pub(crate) fn lines_of_answers() -> Vec<(&'static str, &'static str)> {
            vec![$($($($((stringify!($command), <$line as AnswerLine>::WORD),)+)?)*)*]
        }

        /// The rules of each request, and the types of the lines of its answer.
        #[cfg(test)]
        pub(crate) fn rules_and_answers() -> Vec<(&'static str, Rules, &'static [&'static str])> {
            vec![$((
                stringify!($variant),
                <$request as RequestKind>::RULES,
                <$request as RequestKind>::LINES,
            ),)*]
        }
    };
}

// Each request, and the lines of answers that its file defines, each with the commands that print it.
requests! {
    Propose(ProposeRequest) => [ProposeAnswer of plan_propose plan_add];
    AddStep(AddStepRequest) => [];
    Review(ReviewRequest) => [ReviewAnswer of plan_approve plan_reject];
    RequestPlan(RequestPlanRequest) => [RequestPlanAnswer of plan_request];
    Withdraw(WithdrawRequest) => [WithdrawAnswer of plan_withdraw];
    Claim(ClaimRequest) =>
        [TaskAnswer of claim receipt work, NothingAnswer of claim receipt work];
    Renew(RenewRequest) => [RenewAnswer of renew];
    Release(ReleaseRequest) => [ReleaseAnswer of release work];
    ReleaseStep(ReleaseStepRequest) => [];
    Receipt(ReceiptRequest) => [ReceiptAnswer of receipt work];
    Effect(EffectRequest) => [EffectAnswer of effect];
    Judge(JudgeRequest) => [JudgeAnswer of accept reject work];
    Verdict(VerdictRequest) => [];
    Answer(AnswerRequest) => [AnswerAnswer of answer];
    AnswerStep(AnswerStepRequest) => [];
    AnswerAll(AnswerAllRequest) => [NotAnswered of answer];
    Decide(DecideRequest) => [DecideAnswer of decide];
    Retry(RetryRequest) => [RetryAnswer of retry];
    Skip(SkipRequest) => [SkipAnswer of skip];
    Set(SetRequest) => [SetAnswer of set];
    Budget(BudgetRequest) => [BudgetAnswer of budget];
    Cap(CapRequest) => [CapAnswer of cap];
    Pause(PauseRequest) => [PauseAnswer of pause];
    Unpause(UnpauseRequest) => [UnpauseAnswer of unpause];
    Cancel(CancelRequest) => [CancelAnswer of cancel];
    Fork(ForkRequest) => [ForkAnswer of fork];
    Note(NoteRequest) => [NoteAnswer of note];
    Tick(TickRequest) => [TickAnswer of tick];
    Snapshot(SnapshotRequest) => [SnapshotAnswer of snapshot];
    Prune(PruneRequest) => [PruneAnswer of prune archive];
    CollectBlobs(CollectBlobsRequest) => [CollectBlobsAnswer of blobs];
}

impl Request {
    /// Executes the request and waits until it is durable. Under a key it is executed once, however
    /// often it is repeated.
    ///
    /// # Errors
    /// `Usage` for an unknown name or an invalid request; `Refused`; errors of the ledger.
    pub fn execute(&self, ledger: &Ledger, key: Option<&BatchKey>) -> Result<Answer, Failure> {
        self.execute_from(ledger, key, Origin::ELSEWHERE)
    }

    /// As [`Request::execute`], for a process on this machine.
    ///
    /// # Errors
    /// As [`Request::execute`].
    pub(crate) fn execute_from(
        &self,
        ledger: &Ledger,
        key: Option<&BatchKey>,
        origin: Origin<'_>,
    ) -> Result<Answer, Failure> {
        self.prepare()?;
        let submitted = self.submit(ledger, key.into(), origin);
        submitted.wait().map(|pending| pending.finish(ledger))
    }

    /// The request with its author, whatever its client says.
    ///
    /// # Errors
    /// `Usage` if it cannot be written as JSON.
    pub(crate) fn of_actor(&self, actor: &Actor) -> Result<Self, Failure> {
        let unwritable = |error: serde_json::Error| {
            Failure::Usage(format!("the request cannot be written as JSON: {error}"))
        };
        let mut value = serde_json::to_value(self).map_err(unwritable)?;
        let name = actor.to_string();
        if let Some(by) = value.get_mut("by") {
            *by = name.clone().into();
        }
        // The author of a plan.
        if let Some(provenance) = value.get_mut("provenance") {
            match provenance.get_mut("author") {
                Some(author) => *author = name.into(),
                None => *provenance = serde_json::json!({ "author": name }),
            }
        }
        serde_json::from_value(value).map_err(unwritable)
    }

    /// Lets the plan version that it makes for a run that exists wait for approval, if it makes one.
    pub(crate) fn wait_for_approval(&mut self) {
        match self {
            Self::Propose(request) => request.waits_for_approval = true,
            Self::AddStep(request) => request.waits_for_approval = true,
            _ => {}
        }
    }

    /// The worker that its client names, if it names one.
    pub(crate) fn worker(&self) -> Option<&str> {
        match self {
            Self::Claim(request) => Some(&request.worker),
            Self::Receipt(request) => request.next.as_ref()?.worker.as_deref(),
            _ => None,
        }
    }

    /// The author that its client gives, if it has one. A request that proves its attempt has none.
    pub(crate) fn author(&self) -> Option<String> {
        match self {
            Self::Propose(propose) => propose.provenance.as_ref()?.author.clone(),
            _ if self.rules().token == TokenRule::Required => None,
            _ => Some(serde_json::to_value(self).ok()?.get("by")?.as_str()?.to_owned()),
        }
    }

    /// The key as the name of this request. Equal requests have equal texts, whichever process wrote
    /// them.
    fn name_with(&self, key: &BatchKey) -> Result<BatchKey, Failure> {
        let text = serde_json::to_vec(self).map_err(|error| {
            Failure::Usage(format!("the request cannot be written as JSON: {error}"))
        })?;
        Ok(key.clone().for_request(&text))
    }

    /// Executes the request without waiting.
    pub(crate) fn submit<'l>(
        &self,
        ledger: &'l Ledger,
        options: CommitOptions<'_>,
        origin: Origin<'_>,
    ) -> Submitted<'l, PendingAnswer, Failure> {
        let key = match options.key.map(|key| self.name_with(key)).transpose() {
            Ok(key) => key,
            Err(failure) => return ledger.settled(Err(failure)),
        };
        let commits = RefCell::new(ledger.settled(Ok(())));
        let options = CommitOptions { key: key.as_ref(), ..options };
        let outcome = self.run(RequestContext { ledger, options, origin, commits: &commits });
        commits.into_inner().with(outcome)
    }
}

/// Each request's member `act`, and its rules.
#[cfg(any(feature = "http", feature = "mcp"))]
pub(crate) fn rules_of_requests() -> impl Iterator<Item = (String, Rules)> {
    RULES.iter().map(|(variant, rules)| (act_of(variant), *rules))
}

/// The member `act` of a variant: `answer_step` of `AnswerStep`.
#[cfg(any(feature = "http", feature = "mcp"))]
fn act_of(variant: &str) -> String {
    let mut act = String::new();
    for letter in variant.chars() {
        if letter.is_ascii_uppercase() && !act.is_empty() {
            act.push('_');
        }
        act.push(letter.to_ascii_lowercase());
    }
    act
}

/// The text of an answer, for people.
pub(crate) fn answer_text(answer: &Answer) -> String {
    let texts = answer.lines.iter().filter_map(text_of).filter(|text| !text.is_empty());
    texts.collect::<Vec<_>>().join("\n")
}

/// The first line of that type in an answer.
pub(crate) fn line_of<L: AnswerLine>(answer: &Answer) -> Option<L> {
    let line = answer.lines.iter().find(|line| line.get("type").is_some_and(|it| it == L::WORD))?;
    L::deserialize(line).ok()
}

#[cfg(test)]
mod tests {
    //! Goal: the published schema has every request, its rules and its answers.

    use std::path::Path;

    use serde_json::json;

    use super::*;

    fn schema() -> Value {
        let mut schema = schemars::schema_for!(Request).to_value();
        schema["title"] = json!("A request on the socket of a ledger");
        let all = rules_and_answers();
        for request in schema["oneOf"].as_array_mut().unwrap() {
            let act = request["properties"]["act"]["const"].as_str().unwrap().replace('_', "");
            let same = |name: &str| name.to_ascii_lowercase() == act;
            let (_, rules, answers) = all.iter().find(|(name, ..)| same(name)).unwrap();
            request["x-rules"] = json!(rules);
            request["properties"]["once"] = json!({
                "type": "string",
                "description": "The key of the request: a repetition under it gets the first \
                                answer. Any text of the client's choice, of which no other request has the \
                                same.",
            });
            request["x-answers"] = json!(answers);
        }
        schema
    }

    /// `UPDATE_GOLDEN=1` writes the file again.
    #[test]
    fn published_request_schema_matches_the_types() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../format/requests.schema.json");
        let schema = schema();
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            std::fs::write(&path, format!("{schema:#}\n")).unwrap();
        }
        let published: Value =
            serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
        assert!(
            published == schema,
            "format/requests.schema.json is stale; run with UPDATE_GOLDEN=1"
        );
    }

    /// The places of objects whose unknown members are not refused; an object without named members has any.
    fn open_objects(schema: &Value, place: &str, found: &mut Vec<String>) {
        match schema {
            Value::Object(members) => {
                let is_named = members.get("properties").is_some_and(Value::is_object);
                if is_named && members.get("additionalProperties") != Some(&Value::Bool(false)) {
                    found.push(place.to_owned());
                }
                for (name, inner) in members {
                    open_objects(inner, &format!("{place}/{name}"), found);
                }
            }
            Value::Array(list) => {
                for (nth, inner) in list.iter().enumerate() {
                    open_objects(inner, &format!("{place}/{nth}"), found);
                }
            }
            _ => {}
        }
    }

    /// Regression: `then: {"escalate": {"dead_line": 5}}` in the plan of a request was accepted.
    #[test]
    fn unknown_members_of_requests_are_refused_at_every_depth() {
        let mut found = Vec::new();
        open_objects(&schema(), "", &mut found);
        assert_eq!(found, Vec::<String>::new());
        let plan =
            |step: Value| json!({ "act": "propose", "run": "r", "plan": { "steps": [step] } });
        let known =
            json!({ "id": "a", "fallback": { "value": { "value": 1, "max_age_seconds": 5 } } });
        assert!(serde_json::from_value::<Request>(plan(known)).is_ok());
        let unknown = json!({ "id": "a", "fallback": { "value": { "value": 1, "max_age": 5 } } });
        let error = serde_json::from_value::<Request>(plan(unknown)).unwrap_err().to_string();
        assert!(error.contains("max_age") && error.contains("expected"), "{error}");
    }

    #[test]
    fn author_of_a_request_is_replaced() {
        let actor = Actor::of("agent:codex/4f2c");
        let by = || Author::from("ana".to_owned());
        let note =
            NoteRequest { run: RunOption::default(), step: None, text: "x".to_owned(), by: by() };
        let set = SetRequest {
            run: RunOption::default(),
            name: "x".to_owned(),
            value: 1.into(),
            if_version: None,
            by: by(),
        };
        for request in [Request::from(note), set.into()] {
            let text = serde_json::to_string(&request.of_actor(&actor).unwrap()).unwrap();
            assert!(!text.contains("ana") && text.contains("agent:codex/4f2c"), "{text}");
        }
    }

    #[test]
    fn request_with_a_token_states_it() {
        for (name, rules, _) in rules_and_answers() {
            let has_token = matches!(
                name,
                "Renew" | "Release" | "Receipt" | "Effect" | "Verdict" | "RequestPlan"
            );
            assert_eq!(rules.token != TokenRule::None, has_token, "{name}");
        }
    }
}
