//! The JSON form of events, which `plan_ledger::plan` defines with each event.

use serde_json::Value;

use plan_ledger::Event;

pub(crate) fn event_json(event: &Event) -> Value {
    serde_json::to_value(event).expect("an event consists of JSON values")
}
