//! The probe: tests whether a store keeps the promises on which the protocol relies.
//!
//! It cannot prove them, but it finds stores that ignore the condition of a create, check it and then
//! write, or show old listings.

use std::panic::resume_unwind;
use std::sync::Barrier;

use super::name::PROBE;
use super::objects::Objects;

/// The number of clients that race for one name.
const RACERS: u8 = 8;
/// The number of names that they race for.
const RACES: u8 = 5;

/// Test a store: create a name twice, and let several threads race for one. Returns the broken promises, in words for
/// people; an empty list if the store keeps all of them. `id` makes the names of this probe unique.
///
/// The probe deletes its objects, if the store permits it: a writer needs no right to delete.
#[must_use]
pub fn probe(objects: &dyn Objects, id: &str) -> Vec<String> {
    let mut problems = Vec::new();
    let name = format!("{PROBE}{id}-twice");
    let mut made = vec![name.clone()];
    match objects.create(&name, b"first") {
        Ok(_) => {
            if objects.create(&name, b"second").is_ok() {
                problems.push("a name can be created twice".to_owned());
            }
            check_bytes(objects, &name, b"first", &mut problems);
        }
        // Every other request would also fail, each after the patience of its client. The object may exist
        // nevertheless.
        Err(why) => {
            let _ = objects.delete(&name);
            return vec![format!("an object cannot be created: {why}")];
        }
    }
    for race in 0..RACES {
        let name = format!("{PROBE}{id}-race-{race}");
        made.push(name.clone());
        let winners = race_to_create(objects, &name, 1);
        match winners.as_slice() {
            [winner] => check_bytes(objects, &name, &[*winner], &mut problems),
            [] => problems.push(format!("race {race}: no client of {RACERS} created the name")),
            _ => problems.push(format!(
                "race {race}: {} clients of {RACERS} created the same name",
                winners.len()
            )),
        }
    }
    match objects.list(PROBE) {
        Ok(listing) => {
            let is_listed = |name: &&String| listing.iter().any(|listed| listed.name == **name);
            for name in made.iter().filter(|name| !is_listed(name)) {
                problems.push(format!("{name} was created and is not listed"));
            }
        }
        Err(why) => problems.push(format!("objects cannot be listed: {why}")),
    }
    check_listing_after(objects, &made, &mut problems);
    for name in &made {
        let _ = objects.delete(name);
    }
    problems
}

/// A listing may begin in the middle.
fn check_listing_after(objects: &dyn Objects, made: &[String], problems: &mut Vec<String>) {
    let mut sorted: Vec<&String> = made.iter().collect();
    sorted.sort();
    let (before, later) = sorted.split_at(sorted.len() / 2);
    let Some(after) = before.last() else { return };
    match objects.list_after(PROBE, after) {
        Ok(listing) => {
            let is_listed = |name: &&&String| listing.iter().any(|listed| listed.name == ***name);
            for name in later.iter().filter(|name| !is_listed(name)) {
                problems.push(format!("{name} is not listed after {after}"));
            }
        }
        Err(why) => problems.push(format!("objects after {after} cannot be listed: {why}")),
    }
}

fn check_bytes(objects: &dyn Objects, name: &str, bytes: &[u8], problems: &mut Vec<String>) {
    match objects.get(name, None) {
        Ok(Some(found)) if found.bytes == bytes => {}
        Ok(Some(_)) => problems.push(format!("{name} has the bytes of a create that failed")),
        Ok(None) => problems.push(format!("{name} was created and cannot be read")),
        Err(why) => problems.push(format!("{name} cannot be read: {why}")),
    }
}

/// Let several threads create one name at once, each with `size` bytes that all have the value of
/// its number. Returns the numbers of the winners.
///
/// # Panics
/// A call of the store panics.
pub fn race_to_create(objects: &dyn Objects, name: &str, size: usize) -> Vec<u8> {
    let start = Barrier::new(usize::from(RACERS));
    std::thread::scope(|scope| {
        let racers: Vec<_> = (0..RACERS)
            .map(|racer| {
                let start = &start;
                let create = move || {
                    let bytes = vec![racer; size];
                    start.wait();
                    objects.create(name, &bytes).is_ok().then_some(racer)
                };
                scope.spawn(create)
            })
            .collect();
        let joined =
            racers.into_iter().map(|racer| racer.join().unwrap_or_else(|why| resume_unwind(why)));
        joined.flatten().collect()
    })
}
