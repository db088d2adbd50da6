//! One call of a tool: the ledger, the role, and how requests are made.

use std::cell::Cell;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Map, Value};

use plan_ledger::Environment;

use crate::output::{Code, absent_runners, for_agents};
use crate::protocol::{Answer, Failure, hex, text_of_error};
use crate::requests::{Actor, Author, BoundTo, Request, Role};
use crate::server::{Client, deciding_client};

use super::forms::{Form, PersonAnswer, PersonAnswers};
use super::key::{KEY_LENGTH_MAX, key_of, user_seed};

/// How long a call waits for a locked ledger, and for the answer of a server.
const CALL_WAIT: Duration = Duration::from_secs(20);

/// The pause between two claims of a call that waits.
const CLAIM_PAUSE: Duration = Duration::from_millis(200);

/// The server of one host: it has no state besides its own name.
#[derive(Debug)]
pub(super) struct ToolServer {
    pub(super) dir: PathBuf,
    pub(super) environment: Environment,
    pub(super) role: Role,
    /// The run of a call that names none.
    pub(super) run: Option<String>,
    /// The worker of a call that names none.
    pub(super) worker: String,
    /// The person who fills in forms.
    pub(super) person: Author,
    /// Distinguishes the calls of this process from those of others.
    nonce: String,
    /// The secrets of claims follow from it.
    pub(super) seed: String,
    /// The client has disconnected: its calls may no longer claim.
    is_closed: AtomicBool,
    /// The process or the lease that its claims are bound to.
    pub(super) bound_to: BoundTo,
}

/// The answer of a tool, or the refusal.
pub(super) type ToolOutcome = Result<Map<String, Value>, ToolRefusal>;

/// Why a call was rejected. A model reads the text, and can call again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ToolRefusal {
    /// The name of the rule, as in the errors of the command line.
    pub(super) rejection: String,
    pub(super) message: String,
}

impl ToolRefusal {
    pub(super) fn new(rejection: &str, message: impl Into<String>) -> Self {
        Self { rejection: rejection.to_owned(), message: message.into() }
    }

    pub(super) fn arguments(message: &str) -> Self {
        Self::new("arguments", message)
    }

    fn of_line(line: &Value) -> Self {
        let text = |name: &str| line.get(name).and_then(Value::as_str);
        let rejection = text("rejection").or_else(|| text("kind")).unwrap_or("failed");
        Self::new(rejection, text_of_error(line))
    }
}

impl From<Failure> for ToolRefusal {
    fn from(failure: Failure) -> Self {
        Self::of_line(&failure.json())
    }
}

impl ToolServer {
    pub(super) fn new(
        dir: PathBuf,
        environment: Environment,
        role: Role,
        run: Option<String>,
        worker: Option<String>,
        person: Author,
    ) -> Self {
        let nonce = hex(&environment.ids.next_id());
        let seed = user_seed(&environment.new_secret()).unwrap_or_else(|| nonce.clone());
        let word: String = nonce.chars().take(8).collect();
        let worker = worker.unwrap_or_else(|| format!("mcp/{word}"));
        Self {
            dir,
            environment,
            role,
            run,
            worker,
            person,
            nonce,
            seed,
            is_closed: AtomicBool::new(false),
            bound_to: BoundTo::Peer,
        }
    }

    /// The same for a client over HTTP, which may be on any machine: only its lease counts.
    pub(super) fn over_http(self) -> Self {
        Self { bound_to: BoundTo::Lease, ..self }
    }

    /// Whether a plan version that the client makes for an existing run waits for a person. The client is a model, and
    /// it is unknown whether a client on another machine may decide.
    pub(super) fn versions_wait(&self) -> bool {
        self.deciding_client().is_none()
    }

    /// The host of the model, if the owner of the ledger allowed that model to decide for a person.
    fn deciding_client(&self) -> Option<&'static str> {
        if self.bound_to == BoundTo::Lease {
            return None;
        }
        deciding_client(&self.dir)
    }

    /// The rejection of a call that needs another role.
    pub(super) fn wrong_role(&self, what: &str, needed: Role) -> ToolRefusal {
        let (needed, own) = (role_word(needed), role_word(self.role));
        let why = match self.bound_to {
            BoundTo::Lease => format!("the token of this client has the role {own}"),
            _ => format!("this server was started with --role {own}"),
        };
        ToolRefusal::new("wrong_role", format!("{what} needs the role {needed}; {why}"))
    }

    /// Notes that the client has disconnected.
    pub(super) fn close(&self) {
        self.is_closed.store(true, Ordering::Release);
    }
}

pub(super) struct ToolCall<'a> {
    pub(super) server: &'a ToolServer,
    /// The identifier of the call in the protocol.
    pub(super) id: String,
    /// Whether the client has cancelled the call.
    pub(super) is_cancelled: &'a (dyn Fn() -> bool + Sync),
    /// Whether the user can be asked.
    pub(super) can_ask: bool,
    /// The reactions of the user to the forms that this call has shown.
    pub(super) answers: &'a PersonAnswers,
    /// The form that is to be shown before the call continues.
    pub(super) form: Cell<Option<Form>>,
    /// Whether the user decided in a form of this call.
    pub(super) is_decided: Cell<bool>,
}

impl ToolCall<'_> {
    /// The run that a call names, else that of the server.
    pub(super) fn run(&self, named: Option<String>) -> Option<String> {
        named.or_else(|| self.server.run.clone())
    }

    /// The key of this call within this process: a repetition has the same identifier.
    pub(super) fn own_key(&self, tool: &str, chosen: Option<&str>) -> Result<String, ToolRefusal> {
        match chosen {
            Some(key) if key.is_empty() || key.len() > KEY_LENGTH_MAX => {
                let message =
                    format!("key: expected 1 to {KEY_LENGTH_MAX} bytes, found {}", key.len());
                Err(ToolRefusal::arguments(&message))
            }
            Some(key) => Ok(key_of(&["chosen", tool, key])),
            None => Ok(key_of(&["call", &self.server.nonce, &self.id])),
        }
    }

    /// The user's answer to a form; `None` if the user cannot be asked.
    ///
    /// # Errors
    /// The user has not seen the form yet: the call ends here, and begins again with the answer.
    pub(super) fn ask(&self, form: Form) -> Result<Option<PersonAnswer>, ToolRefusal> {
        if let Some(answer) = self.answers.get(&form.key) {
            self.is_decided.set(matches!(answer, PersonAnswer::Given { .. }));
            return Ok(Some(answer.clone()));
        }
        if !self.can_ask || self.server.role < Role::Operator {
            return Ok(None);
        }
        let message = form.message.clone();
        self.form.set(Some(form));
        Err(ToolRefusal::new("input_required", message))
    }

    /// Makes a request under a key.
    pub(super) fn request(
        &self,
        request: impl Into<Request>,
        key: &str,
    ) -> Result<Answer, ToolRefusal> {
        let request = request.into();
        let needed = request.rules().role;
        if needed > self.server.role {
            return Err(self.server.wrong_role("this", needed));
        }
        let request = self.attributed(request)?;
        let answer = self.client().call_under(&request, key)?;
        match answer.lines.first().filter(|line| line.get("type").is_some_and(|it| it == "error")) {
            Some(line) => Err(ToolRefusal::of_line(line)),
            None => Ok(self.with_absent_runners(&request, answer)),
        }
    }

    /// The answer to a decision, with the member `said`: no runner is at work that would act on it.
    fn with_absent_runners(&self, request: &Request, mut answer: Answer) -> Answer {
        if !request.rules().decides {
            return answer;
        }
        let texts = for_agents(|| absent_runners(&self.server.dir, &answer));
        if let Some(Value::Object(line)) = answer.lines.first_mut().filter(|_| !texts.is_empty()) {
            line.insert("said".to_owned(), texts.into());
        }
        answer
    }

    /// The request with the name of its author, if it is a decision of a person: the user, who
    /// decided in a form; otherwise the agent, whose decision counts only if the owner of the
    /// ledger allowed it.
    fn attributed(&self, request: Request) -> Result<Request, ToolRefusal> {
        let named = request.author().map_or(Ok(()), |by| Actor::expect_own_name(&by));
        named.map_err(|why| ToolRefusal::arguments(&why))?;
        if !request.rules().decides || self.is_decided.get() || plan_ledger::mutant!(ModelDecides) {
            return Ok(request);
        }
        match self.server.deciding_client() {
            Some(host) => Ok(request.of_actor(&Actor::Agent(host.to_owned()))?),
            None if self.can_ask => Err(ToolRefusal::new(
                "agent_session",
                "this call decides nothing that waits for the user\nhint: `ledger_show` with \
                 `questions` lists what waits",
            )),
            None => Err(ToolRefusal::new(
                "agent_session",
                "only a person decides this, and this client cannot show a form\nhint: tell the user \
                 what waits: `ledger questions` in a shell of the user's own has the commands for it, and \
                 `ledger setup HOST --agents-decide` there lets the agents of a host decide",
            )),
        }
    }

    /// Makes a request again until a step is ready, the run ends, or the time is over.
    pub(super) fn request_until_ready(
        &self,
        request: &Request,
        key: &str,
        wait: Duration,
    ) -> Result<Answer, ToolRefusal> {
        let until = Instant::now() + wait;
        loop {
            if self.server.is_closed.load(Ordering::Acquire) || (self.is_cancelled)() {
                return Err(ToolRefusal::new("cancelled", "the call was cancelled"));
            }
            let answer = self.request(request.clone(), key)?;
            let left = until.saturating_duration_since(Instant::now());
            if Code::of(answer.code) != Code::Waiting || left.is_zero() {
                return Ok(answer);
            }
            std::thread::sleep(CLAIM_PAUSE.min(left));
        }
    }

    fn client(&self) -> Client {
        Client::new(&self.server.dir, &self.server.environment).with_wait_limit(CALL_WAIT)
    }
}

pub(super) fn role_word(role: Role) -> &'static str {
    match role {
        Role::Viewer => "viewer",
        Role::Worker => "worker",
        Role::Operator => "operator",
    }
}
