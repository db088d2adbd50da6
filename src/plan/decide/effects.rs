//! Side effects: a worker announces (intends) a side effect before it happens, and confirms
//! (commits) it afterwards.
//!
//! Each key is used once per run. A side effect that is confirmed must not be repeated.

use crate::plan::event::Event;
use crate::plan::event::step_event::{EffectCommitted, EffectIntended};
use crate::plan::event::table::StepEvent;
use crate::plan::rejection::Rejection;
use crate::plan::state::State;
use crate::plan::value::ids::AttemptToken;

pub(super) fn intend(
    state: &State,
    token: AttemptToken,
    effect: &str,
    key: &str,
) -> Result<Vec<Event>, Rejection> {
    let (run, number) = state.in_flight.get(&token).ok_or(Rejection::StaleToken(token))?;
    let known = state.runs.get(run).and_then(|run| run.effects.get(key));
    if let Some(known) = known
        && (known.committed != 0 || known.token == token)
    {
        return Err(Rejection::EffectKnown { key: key.to_owned(), committed: known.committed });
    }
    let (effect, key) = (effect.to_owned(), key.to_owned());
    let intended = EffectIntended { token, effect, key };
    Ok(vec![Event::step(*run, *number, StepEvent::EffectIntended(intended))])
}

pub(super) fn commit(
    state: &State,
    token: AttemptToken,
    key: &str,
) -> Result<Vec<Event>, Rejection> {
    let (run, number) = state.in_flight.get(&token).ok_or(Rejection::StaleToken(token))?;
    match state.runs.get(run).and_then(|run| run.effects.get(key)) {
        Some(known) if known.committed == 0 => {
            let mut events = Vec::new();
            // The side effect that another attempt announced now belongs to this one.
            if known.token != token {
                let (effect, key) = (known.effect.clone(), key.to_owned());
                events.push(StepEvent::EffectIntended(EffectIntended { token, effect, key }));
            }
            let key = key.to_owned();
            events.push(StepEvent::EffectCommitted(EffectCommitted { token, key }));
            Ok(events.into_iter().map(|event| Event::step(*run, *number, event)).collect())
        }
        Some(known) => {
            Err(Rejection::EffectKnown { key: key.to_owned(), committed: known.committed })
        }
        None => Err(Rejection::NoSuchEffect(key.to_owned())),
    }
}
