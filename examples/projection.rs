//! A user-defined projection: the cost of the attempts of each owner, at any record of the past,
//! without folding the whole log every time.
#![expect(clippy::print_stdout, reason = "the example prints its results")]

use std::collections::BTreeMap;
use std::io;

use plan_ledger::plan::StepEvent;
use plan_ledger::{
    Cost, Environment, Event, Ledger, Plan, Projection, Receipt, RecordedEvent, RunId, RunPolicy,
    StepNumber,
};
use serde::{Deserialize, Serialize};

/// Attempts and money by owner.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
struct SpentByOwner {
    /// The number of attempts and their cost in millionths, by owner.
    owners: BTreeMap<String, (u64, u64)>,
    /// The owner of each step, from the plans so far.
    steps: BTreeMap<RunId, Vec<String>>,
}

impl Projection for SpentByOwner {
    const NAME: &'static str = "spent_by_owner";
    const VERSION: u32 = 1;

    fn apply(&mut self, record: &RecordedEvent) {
        match &record.event {
            Some(Event::PlanSteps(added)) => {
                let owners = added.steps.iter().map(|each| each.step.owner.clone());
                let owners = owners.map(|owner| owner.unwrap_or_else(|| "unowned".to_owned()));
                self.steps.entry(added.run).or_default().extend(owners);
            }
            Some(Event::Step(record)) => match &record.event {
                StepEvent::Dispatched(_) => self.of(record.run, record.step).0 += 1,
                StepEvent::ReceiptRecorded(recorded) => {
                    self.of(record.run, record.step).1 += recorded.receipt.cost.money_micros;
                }
                _ => {}
            },
            _ => {}
        }
    }

    fn encode(&self, out: &mut dyn io::Write) -> io::Result<()> {
        // Sorted maps and integers: equal values give equal bytes.
        Ok(serde_json::to_writer(out, self)?)
    }

    fn decode(input: &mut dyn io::Read) -> io::Result<Self> {
        Ok(serde_json::from_reader(input)?)
    }
}

impl SpentByOwner {
    /// The entry of a step's owner, created if necessary.
    fn of(&mut self, run: RunId, step: StepNumber) -> &mut (u64, u64) {
        let owner = self.steps.get(&run).and_then(|steps| steps.get(step.index()));
        let owner = owner.map_or("unowned", String::as_str).to_owned();
        self.owners.entry(owner).or_default()
    }
}

pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    let plan: Plan = serde_json::from_str(
        r#"{"steps": [{"id": "draft", "owner": "writer"}, {"id": "facts", "owner": "checker"},
            {"id": "polish", "owner": "writer", "after": ["draft", "facts"]}]}"#,
    )?;
    let folder = tempfile::tempdir()?;
    let dir = folder.path().join("projection.ledger");
    let (ledger, _) = Ledger::open_or_create(&dir, &Environment::system())?;
    let run = ledger.start_run("article", &plan, RunPolicy::default())?;
    let mut half_way = 0;
    while let Some(task) = ledger.dispatch(run, "worker-1")? {
        let cost = Cost { money_micros: 1000 * u64::from(task.number.0), tokens: 50 };
        ledger.record_receipt(task.token, Receipt { cost, ..Receipt::default() })?;
        if task.step.id == "facts" {
            half_way = ledger.snapshot::<SpentByOwner>()?.seq;
        }
    }
    // This folds from the snapshot, not from the start.
    let last = ledger.head().seq;
    let spent: SpentByOwner = ledger.project(last)?;
    for (owner, (attempts, money)) in &spent.owners {
        println!("{owner}: {attempts} attempts, {money} millionths");
    }
    assert_eq!(spent.owners.get("writer"), Some(&(2, 4000)));
    // Any record of the past works too.
    let before: SpentByOwner = ledger.project(half_way)?;
    assert_eq!(before.owners.get("writer"), Some(&(1, 1000)));
    Ok(ledger.close()?)
}
