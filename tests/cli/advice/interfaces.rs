//! Asks a situation over HTTP and MCP, whose answers print commands, too.
//!
//! A question is a line, as a command line is: `http GET PATH ...`, `http POST BODY ...`, or `mcp RUN STEP`.

use serde_json::{Value, json};

use crate::command::{Ended, Place, start};
use crate::http::Address;
use crate::mcp::Client;

/// The views over HTTP that print commands; `RUN` and `STEP` are those of the situation.
const VIEWS: [&str; 6] = [
    "/v1/ledger",
    "/v1/runs",
    "/v1/runs/RUN",
    "/v1/runs/RUN/operator",
    "/v1/runs/RUN/questions",
    "/v1/runs/RUN/steps/STEP/why",
];

/// What is asked over MCP.
const SHOWN: [&str; 3] = ["questions", "plan", "queue"];

/// The questions about a step of a run, and the decisions about these questions of the run.
pub(super) fn questions_of(run: &str, step: &str, questions: &[(u64, Vec<String>)]) -> Vec<String> {
    let word = |word: &str| word.replace(' ', "%20").replace('\'', "%27");
    let path = |path: &&str| path.replace("RUN", &word(run)).replace("STEP", &word(step));
    let views: Vec<String> = VIEWS.iter().map(path).collect();
    let of_step =
        |act: &str| json!({ "act": act, "run": run, "step": step, "reason": "known", "by": "ana" });
    let mut decisions: Vec<Value> = questions
        .iter()
        .flat_map(|(id, answers)| {
            answers.iter().map(move |answer| {
                json!({ "act": "answer", "question": id, "answer": answer, "by": "ana" })
            })
        })
        .collect();
    decisions.push(of_step("skip"));
    decisions.push(json!({ "act": "retry", "run": run, "step": step, "by": "ana" }));
    decisions
        .push(json!({ "act": "judge", "run": run, "step": step, "ruling": "pass", "by": "ana" }));
    std::iter::once(format!("http GET {}", views.join(" ")))
        .chain(decisions.iter().map(|body| format!("http POST {body}")))
        .chain([format!("mcp {}", json!({ "run": run, "step": step }))])
        .collect()
}

/// The answer to a question; `None` if the line is none. For an agent: with the role of a worker, and over MCP in its
/// host's environment.
pub(super) fn ask(line: &str, place: &Place, marks: Option<&[(&str, &str)]>) -> Option<Ended> {
    if let Some(about) = line.strip_prefix("mcp ") {
        return Some(Ended::answered(over_mcp(about, place, marks.unwrap_or_default())));
    }
    let (method, rest) = line.strip_prefix("http ")?.split_once(' ')?;
    let mut server = start(&mut place.command(&["serve", "--http"]));
    // A damaged ledger has no server.
    while !server.said("serving") {
        if server.is_over() {
            return Some(server.end());
        }
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    let address = Address::of(place);
    let role = if marks.is_some() { "worker" } else { "operator" };
    let answers: Vec<String> = match method {
        "GET" => rest.split(' ').map(|path| address.answer(role, "GET", path, "")).collect(),
        _ => vec![address.answer(role, "POST", "/v1/requests", rest)],
    };
    server.dismiss();
    Some(Ended::answered(answers.join("\n")))
}

fn over_mcp(about: &str, place: &Place, marks: &[(&str, &str)]) -> String {
    let about: Value = serde_json::from_str(about).unwrap();
    let (run, step) = (&about["run"], &about["step"]);
    let mut client = Client::of_host(place, &["--role", "operator"], marks);
    let mut calls = vec![
        ("ledger_status", json!({})),
        ("ledger_status", json!({ "run": run })),
        ("ledger_show", json!({ "what": "why", "run": run, "id": step })),
        ("ledger_show", json!({ "what": "step", "run": run, "id": step })),
        ("ledger_answer", json!({ "run": run, "step": step, "answer": "retry" })),
    ];
    calls.extend(SHOWN.map(|what| ("ledger_show", json!({ "what": what, "run": run }))));
    let answers = calls.iter().map(|(tool, arguments)| client.call_any(tool, arguments));
    answers.map(|answer| answer.to_string()).collect::<Vec<_>>().join("\n")
}
