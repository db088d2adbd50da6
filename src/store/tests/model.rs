//! Every order of events within a small scope, for the real state machines.
//!
//! Processes open epochs and commit slots of one record each; requests are lost, carried out late
//! or twice, and answers are lost; segment objects appear, any process that ever made a segment
//! object collects slots, a machine is copied in any state, and the store's clock advances. Other
//! processes bring folders from another store: their records are given, and a writer note among
//! them becomes an opening slot again. After each event the following must hold: an acknowledged
//! record is in the history, at its place; no two records are acknowledged at one place; the log of
//! a process is a prefix of the history; a slot lands at the end of the history and continues it,
//! or under a name that a segment object covers; no process reports damage.
//!
//! A planted bug ([`Bug`]) is a wrong driver around the machines, or a wrong collector. Each must break one
//! of these.

use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::hash::{Hash, Hasher};

use crate::format::Chain;
use crate::sim::sweep;
use crate::store::{
    DOUBT_AFTER, EndFinder, FoundSlot, ListReason, SlotFacts, SlotKeeper, StoreAnswer, StoreCall,
    StorePosition, StoreTime, Takeover,
};

/// The scope of the model.
#[derive(Debug, Clone, Copy)]
struct Scope {
    /// Number of processes that open an epoch.
    processes: usize,
    /// Whether the second process only reads.
    second_reads: bool,
    /// The first processes bring these folders to the store: each has the records of one.
    folders: &'static [&'static [u8]],
    /// The last record.
    last_seq: u64,
    /// How often a slot is sent.
    tries: u8,
    /// Slots that each process commits.
    commits: u8,
    /// Segment objects that are made.
    segments: u8,
    /// Whether one process is copied.
    is_copied: bool,
    /// How often the clock advances by 24 hours.
    ticks: u64,
    /// Age at which a slot may be collected, in ticks.
    age: u64,
    bug: Option<Bug>,
}

impl Scope {
    const SMALL: Self = Self {
        processes: 2,
        second_reads: false,
        folders: &[],
        last_seq: 3,
        tries: 2,
        commits: 1,
        segments: 1,
        is_copied: false,
        ticks: 0,
        age: 0,
        bug: None,
    };
    const COPIED: Self = Self { is_copied: true, ticks: 1, age: 1, ..Self::SMALL };
    /// A reader beside a writer and its copy.
    const READ: Self = Self { second_reads: true, last_seq: 2, tries: 1, ..Self::COPIED };
    /// Two folders that are brought to the store.
    const MOVED: Self = Self { folders: &[FOLDER, DIVERGED], tries: 1, ..Self::SMALL };

    fn with(self, bug: Bug) -> Self {
        Self { bug: Some(bug), ..self }
    }
}

/// A planted bug.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Bug {
    OpeningSlotCollected,
    /// A process that created an opening slot does not check the floor.
    OpenedUnchecked,
    /// A reader believes an opening slot without checking the floor.
    OpeningSlotBelieved,
    /// A reader believes a late slot without checking the floor.
    LateSlotBelieved,
    /// A writer believes that its late slot belongs to the log.
    LateCommitUnchecked,
    /// A slot of this process is taken for the slot that it sent.
    NodeCompared,
    /// A record is acknowledged when its slot is sent.
    AcknowledgedEarly,
    /// A segment object has records of a slot that is not written.
    SegmentEarly,
    /// Slots are collected without a segment object.
    CollectedEarly,
    /// A second try sends other bytes.
    BytesChanged,
    /// A process that created an opening slot of its folder again does not check the floor.
    CopiedOpeningUnchecked,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Machine {
    Idle,
    /// The process reads the part of its folder that the store has.
    Reads(EndFinder),
    Opens(Takeover),
    Keeps(SlotKeeper),
    Stopped,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Process {
    machine: Machine,
    /// Its identity, which a copy has too.
    node: u8,
    /// A create was sent, and is neither answered nor abandoned.
    is_waiting: bool,
    /// How often the current slot was sent.
    tries: u8,
    openings: u8,
    commits: u8,
    /// The last record in a segment object that it made.
    covered: u64,
}

/// A record is a byte that names its writer; a history is a sequence of records.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct World {
    processes: Vec<Process>,
    objects: BTreeMap<u64, SlotFacts>,
    floor: u64,
    segments: u8,
    /// The records of the log, with their epochs.
    history: Vec<(u8, u64)>,
    acknowledged: BTreeMap<u64, u8>,
    requests: Vec<(usize, SlotFacts)>,
    now: u64,
    is_copied: bool,
}

const OPENING: u8 = 0x80;
/// A writer note of a folder, and its epoch.
const OLD_NOTE: u8 = OPENING | 0x10;
const OLD_EPOCH: u64 = 3;
/// The records of a folder that had another store.
const FOLDER: &[u8] = &[0x21, OLD_NOTE, 0x22];
/// Those of a copy that was made before its last epoch and continued alone.
const DIVERGED: &[u8] = &[0x21, 0x23, 0x24];
/// The place of a copy among the processes.
const COPY: usize = 3;

/// The chain value of a history is the history itself, so that equal values mean equal histories.
fn chain(records: &[u8]) -> Chain {
    let mut bytes = [0; 32];
    bytes[..records.len()].copy_from_slice(records);
    bytes[31] = u8::try_from(records.len()).unwrap();
    Chain(bytes)
}

fn records_of(chain: &Chain) -> &[u8] {
    &chain.0[..usize::from(chain.0[31])]
}

impl World {
    fn new(scope: &Scope) -> Self {
        let process = |index| Process {
            machine: if index < scope.processes { Machine::Idle } else { Machine::Stopped },
            node: u8::try_from(index).unwrap() + 1,
            is_waiting: false,
            tries: 0,
            openings: 0,
            commits: 0,
            covered: 0,
        };
        Self {
            processes: (0..=COPY).map(process).collect(),
            objects: BTreeMap::new(),
            floor: 0,
            segments: 0,
            history: Vec::new(),
            acknowledged: BTreeMap::new(),
            requests: Vec::new(),
            now: 0,
            is_copied: false,
        }
    }

    fn chain_at(&self, last_seq: u64) -> Option<Chain> {
        let records = self.history.get(..usize::try_from(last_seq).unwrap())?;
        Some(chain(&records.iter().map(|(record, _)| *record).collect::<Vec<_>>()))
    }

    fn is_believable(&self, position: &StorePosition) -> bool {
        self.chain_at(position.next_seq - 1) == Some(position.chain)
    }

    fn floor_position(&self, floor: u64) -> StorePosition {
        let (_, epoch) = self.history[usize::try_from(floor).unwrap() - 1];
        let chain = self.chain_at(floor).unwrap();
        StorePosition { next_seq: floor + 1, chain, epoch, at: None }
    }

    fn slot(&self, index: usize, position: &StorePosition, record: u8) -> SlotFacts {
        let opens = record & OPENING != 0;
        let mut records = records_of(&position.chain).to_vec();
        records.push(record);
        let chain_after = chain(&records);
        SlotFacts {
            first_seq: position.next_seq,
            last_seq: position.next_seq,
            chain_before: position.chain,
            chain_after,
            epoch: position.epoch + u64::from(opens),
            opens,
            node: [self.processes[index].node; 16],
            bytes: chain_after.0,
            at: None,
        }
    }

    /// The slot with the next record of a folder. Only opening slots name the process that the folder names.
    fn copied(&self, index: usize, position: &StorePosition, record: u8) -> SlotFacts {
        let slot = self.slot(index, position, record);
        let mut bytes = slot.bytes;
        if slot.opens {
            return SlotFacts { epoch: OLD_EPOCH, node: [OLD_NOTE; 16], ..slot };
        }
        bytes[30] = slot.node[0];
        SlotFacts { bytes, ..slot }
    }
}

/// A broken property.
type Broken = &'static str;

struct Search {
    scope: Scope,
    broken: BTreeSet<Broken>,
}

impl Search {
    fn check(&mut self, holds: bool, what: Broken) {
        if !holds {
            self.broken.insert(what);
        }
    }

    fn is_planted(&self, bug: Bug) -> bool {
        self.scope.bug == Some(bug)
    }

    fn acknowledge(&mut self, world: &mut World, position: &StorePosition) {
        let seq = position.next_seq - 1;
        let record = *records_of(&position.chain).last().unwrap();
        let place = usize::try_from(seq).unwrap() - 1;
        let found = world.history.get(place).map(|(record, _)| *record);
        self.check(found == Some(record), "an acknowledged record is not in the history");
        let before = world.acknowledged.insert(seq, record);
        self.check(
            before.is_none_or(|before| before == record),
            "two records are acknowledged at one place",
        );
    }

    fn believe(&mut self, world: &World, position: &StorePosition) {
        self.check(world.is_believable(position), "a process believes what is not the history");
    }

    fn successors(&mut self, world: &World) -> Vec<World> {
        let mut next = Vec::new();
        self.network(world, &mut next);
        if world.now < self.scope.ticks {
            next.push(World { now: world.now + 1, ..world.clone() });
        }
        for index in 0..world.processes.len() {
            self.process(world, index, &mut next);
            self.collector(world, index, &mut next);
            self.copy(world, index, &mut next);
        }
        next
    }

    /// A request is lost, or carried out; then its answer is lost, or arrives.
    fn network(&mut self, world: &World, next: &mut Vec<World>) {
        for place in 0..world.requests.len() {
            if place > 0 && world.requests[place] == world.requests[place - 1] {
                continue;
            }
            let mut lost = world.clone();
            let (index, slot) = lost.requests.remove(place);
            let mut done = lost.clone();
            next.push(lost);
            let at = Some(StoreTime(done.now * DOUBT_AFTER));
            let is_created = !done.objects.contains_key(&slot.first_seq);
            if is_created {
                done.objects.insert(slot.first_seq, SlotFacts { at, ..slot });
                self.land(&mut done, &slot);
            }
            let process = &done.processes[index];
            let is_awaited = process.is_waiting
                && match &process.machine {
                    Machine::Opens(takeover) => takeover.call() == StoreCall::CreateSlot(slot),
                    Machine::Keeps(keeper) => keeper.call() == StoreCall::CreateSlot(slot),
                    Machine::Idle | Machine::Reads(_) | Machine::Stopped => false,
                };
            if is_awaited {
                let mut answered = done.clone();
                let answer =
                    if is_created { StoreAnswer::Created(at) } else { StoreAnswer::Unclear };
                self.tell(&mut answered, index, answer);
                next.push(answered);
            }
            next.push(done);
        }
    }

    /// A slot was created.
    fn land(&mut self, world: &mut World, slot: &SlotFacts) {
        let end = u64::try_from(world.history.len()).unwrap();
        self.check(slot.first_seq <= end + 1, "a slot lands after a gap");
        if slot.first_seq == end + 1 {
            let continues = world.chain_at(end) == Some(slot.chain_before);
            self.check(continues, "a slot lands on another history");
            let record = *records_of(&slot.chain_after).last().unwrap();
            world.history.push((record, slot.epoch));
        }
    }

    /// Give a process an answer, and let it act at once.
    fn tell(&mut self, world: &mut World, index: usize, answer: StoreAnswer) {
        world.processes[index].is_waiting = false;
        let mut machine = world.processes[index].machine.clone();
        match &mut machine {
            Machine::Reads(finder) => finder.answer(answer),
            Machine::Opens(takeover) => {
                takeover.answer(answer);
                if let Some(keeper) = takeover.keeper() {
                    self.believe(world, keeper.position());
                    self.acknowledge(world, &keeper.position().clone());
                    machine = Machine::Keeps(keeper);
                }
            }
            Machine::Keeps(keeper) => {
                keeper.answer(answer);
                match keeper.call() {
                    StoreCall::Rest(position) => self.acknowledge(world, &position),
                    StoreCall::Fenced(_) if index < self.scope.folders.len() => {
                        machine = Machine::Reads(EndFinder::from(*keeper.position()));
                    }
                    StoreCall::Fenced(_) => machine = Machine::Stopped,
                    _ => {}
                }
            }
            Machine::Idle | Machine::Stopped => {}
        }
        world.processes[index].machine = machine;
    }

    /// The next step of a process.
    fn process(&mut self, world: &World, index: usize, next: &mut Vec<World>) {
        let process = &world.processes[index];
        let call = match &process.machine {
            Machine::Idle => {
                let mut world = world.clone();
                world.processes[index].machine = if index < self.scope.folders.len() {
                    Machine::Reads(EndFinder::from(StorePosition::START))
                } else {
                    Machine::Opens(Takeover::from(StorePosition::START))
                };
                next.push(world);
                return;
            }
            Machine::Stopped => return,
            Machine::Reads(finder) => finder.call(),
            Machine::Opens(takeover) => takeover.call(),
            Machine::Keeps(keeper) => keeper.call(),
        };
        if let Machine::Opens(takeover) = &process.machine {
            // It follows the log, and opens an epoch later.
            for following in takeover.following() {
                let mut world = world.clone();
                world.processes[index].machine = Machine::Opens(following);
                next.push(world);
            }
        }
        let is_keeping = matches!(process.machine, Machine::Keeps(_));
        let mut after = world.clone();
        match call {
            StoreCall::ListSegments(reason) => {
                let floor = if self.is_skipped(reason, world, index) { 0 } else { world.floor };
                self.tell(&mut after, index, StoreAnswer::Floor(floor));
            }
            StoreCall::CheckLastSlot(_) => {
                // A slot of the model has one record.
                self.tell(&mut after, index, StoreAnswer::EndsInside(false));
            }
            StoreCall::ListSlots => {
                let last = world.objects.keys().last().copied().unwrap_or(0);
                self.tell(&mut after, index, StoreAnswer::LastSlot(last));
            }
            StoreCall::ReadSegments(floor) => {
                let position = world.floor_position(floor);
                self.tell(&mut after, index, StoreAnswer::Position(position));
            }
            StoreCall::GetSlot(name) => {
                let found = world.objects.get(&name).copied();
                if is_keeping && found.is_none() && self.is_planted(Bug::BytesChanged) {
                    self.change_bytes(world, index, next);
                    return;
                }
                let found = found.map(|found| self.see(world, index, found));
                self.tell(&mut after, index, StoreAnswer::Found(found));
            }
            StoreCall::TakeIn(slot) => {
                self.tell(&mut after, index, StoreAnswer::TakenIn);
                self.believe(world, &StorePosition::after(&slot));
            }
            StoreCall::BuildOpening(position) => {
                let may_open = process.openings == 0 && !(self.scope.second_reads && index == 1);
                if !may_open || position.next_seq > self.scope.last_seq {
                    return;
                }
                let record = OPENING | u8::try_from(index).unwrap();
                let slot = world.slot(index, &position, record);
                after.processes[index].openings += 1;
                after.processes[index].tries = 0;
                self.tell(&mut after, index, StoreAnswer::Opening(slot));
            }
            StoreCall::CreateSlot(slot) if process.is_waiting => {
                if is_keeping {
                    self.make_segment_early(world, index, &slot, next);
                }
                // It gives up waiting.
                self.tell(&mut after, index, StoreAnswer::Unclear);
            }
            StoreCall::CreateSlot(slot) => {
                if process.tries >= self.scope.tries {
                    return;
                }
                after.processes[index].tries += 1;
                after.processes[index].is_waiting = true;
                after.requests.push((index, slot));
                after.requests.sort();
            }
            StoreCall::Rest(position) => {
                self.rest(world, index, &position, next);
                return;
            }
            StoreCall::Fenced(_) => return,
            StoreCall::Damaged(_) => {
                self.check(false, "a process reports damage");
                return;
            }
        }
        next.push(after);
    }

    /// A process adds the next record of its folder at the end of the log, if the store has the ones before.
    fn add_copied(
        &self,
        world: &World,
        index: usize,
        position: &StorePosition,
        next: &mut Vec<World>,
    ) {
        let rest = self.scope.folders[index].strip_prefix(records_of(&position.chain));
        let record = rest.and_then(<[u8]>::first);
        let Some(record) = record.filter(|_| position.next_seq <= self.scope.last_seq) else {
            return;
        };
        let mut after = world.clone();
        let mut keeper = SlotKeeper::at(*position);
        assert!(keeper.start_copied(world.copied(index, position, *record)));
        let process = &mut after.processes[index];
        (process.machine, process.tries) = (Machine::Keeps(keeper), 0);
        next.push(after);
    }

    /// Whether a bug makes a process list no segment objects.
    fn is_skipped(&self, reason: ListReason, world: &World, index: usize) -> bool {
        let is_opening = || match &world.processes[index].machine {
            Machine::Opens(takeover) => takeover.doubtful().is_some_and(|slot| slot.opens),
            _ => false,
        };
        let is_keeping = matches!(world.processes[index].machine, Machine::Keeps(_));
        match (reason, self.scope.bug) {
            (ListReason::Opened, Some(Bug::OpenedUnchecked)) => !is_keeping,
            (ListReason::Opened, Some(Bug::CopiedOpeningUnchecked)) => is_keeping,
            (ListReason::WrittenLate, Some(Bug::LateCommitUnchecked)) => true,
            (ListReason::DoubtfulSlot, Some(Bug::OpeningSlotBelieved)) => is_opening(),
            (ListReason::DoubtfulSlot, Some(Bug::LateSlotBelieved)) => !is_opening(),
            _ => false,
        }
    }

    /// The object that a process finds under a name.
    fn see(&self, world: &World, index: usize, found: SlotFacts) -> FoundSlot {
        let own = match &world.processes[index].machine {
            Machine::Keeps(keeper) => keeper.under_way(),
            _ => None,
        };
        match own {
            Some(own) if self.is_planted(Bug::NodeCompared) && own.node == found.node => {
                FoundSlot::Slot(SlotFacts { at: found.at, ..own })
            }
            _ => FoundSlot::Slot(found),
        }
    }

    /// The bug: the process finds nothing, so it sends other bytes under the same name.
    fn change_bytes(&mut self, world: &World, index: usize, next: &mut Vec<World>) {
        let Machine::Keeps(keeper) = &world.processes[index].machine else { return };
        if world.processes[index].tries >= self.scope.tries {
            return;
        }
        let position = *keeper.position();
        let record = 0x40 | u8::try_from(index).unwrap();
        let mut keeper = SlotKeeper::at(position);
        assert!(keeper.start(world.slot(index, &position, record)));
        let mut world = world.clone();
        world.processes[index].machine = Machine::Keeps(keeper);
        next.push(world);
    }

    /// The bug: a segment object has records of a slot that is not written.
    fn make_segment_early(
        &mut self,
        world: &World,
        index: usize,
        slot: &SlotFacts,
        next: &mut Vec<World>,
    ) {
        let is_possible = world.segments < self.scope.segments && world.floor < slot.last_seq;
        if !self.is_planted(Bug::SegmentEarly) || !is_possible {
            return;
        }
        let covered = StorePosition::after(slot);
        self.believe(world, &covered);
        let end = u64::try_from(world.history.len()).unwrap();
        if end >= slot.last_seq {
            next.push(world.with_segment(index, slot.last_seq));
        }
    }

    /// A process in an open epoch commits, or makes a segment object.
    fn rest(
        &mut self,
        world: &World,
        index: usize,
        position: &StorePosition,
        next: &mut Vec<World>,
    ) {
        let process = &world.processes[index];
        let is_copying = index < self.scope.folders.len();
        if is_copying {
            self.add_copied(world, index, position, next);
        }
        let Machine::Keeps(keeper) = &process.machine else { return };
        if !is_copying
            && process.commits < self.scope.commits
            && position.next_seq <= self.scope.last_seq
        {
            let mut after = world.clone();
            let number = u8::try_from(index).unwrap() * 4 + process.commits + 1;
            let slot = world.slot(index, position, number);
            let mut keeper = keeper.clone();
            assert!(keeper.start(slot));
            let process = &mut after.processes[index];
            process.machine = Machine::Keeps(keeper);
            process.commits += 1;
            process.tries = 0;
            if self.is_planted(Bug::AcknowledgedEarly) {
                self.acknowledge(&mut after, &StorePosition::after(&slot));
            }
            next.push(after);
        }
        let last_seq = position.next_seq - 1;
        if last_seq > world.floor && world.segments < self.scope.segments {
            self.believe(world, position);
            next.push(world.with_segment(index, last_seq));
        }
        if self.is_planted(Bug::CollectedEarly) {
            for (name, slot) in &world.objects {
                if *name <= last_seq && !slot.opens {
                    next.push(world.without(*name));
                }
            }
        }
    }

    /// A process that made a segment object deletes the slots that it covers, at any later time,
    /// alive or not.
    fn collector(&mut self, world: &World, index: usize, next: &mut Vec<World>) {
        let covered = world.processes[index].covered;
        for (name, slot) in world.objects.range(..=covered) {
            let age = world.now - slot.at.unwrap().0 / DOUBT_AFTER;
            let may_be_deleted = !slot.opens || self.is_planted(Bug::OpeningSlotCollected);
            if age >= self.scope.age && may_be_deleted {
                next.push(world.without(*name));
            }
        }
    }

    /// The copy of a machine starts.
    fn copy(&mut self, world: &World, index: usize, next: &mut Vec<World>) {
        let is_possible = self.scope.is_copied && !world.is_copied && index != COPY;
        let is_worthwhile = match &world.processes[index].machine {
            Machine::Keeps(_) => true,
            Machine::Opens(takeover) => {
                takeover.call() == StoreCall::ListSegments(ListReason::Opened)
            }
            Machine::Idle | Machine::Reads(_) | Machine::Stopped => false,
        };
        if is_possible && is_worthwhile {
            let mut world = world.clone();
            world.processes[COPY] = world.processes[index].clone();
            world.is_copied = true;
            next.push(world);
        }
    }
}

impl World {
    fn with_segment(&self, index: usize, last_seq: u64) -> Self {
        let mut world = self.clone();
        world.floor = world.floor.max(last_seq);
        world.segments += 1;
        world.processes[index].covered = last_seq;
        world
    }

    fn without(&self, name: u64) -> Self {
        let mut world = self.clone();
        world.objects.remove(&name);
        world
    }

    /// 128 bits: a collision would only hide a state.
    fn fingerprint(&self) -> u128 {
        let hash = |salt: u8| {
            let mut hasher = DefaultHasher::new();
            salt.hash(&mut hasher);
            self.hash(&mut hasher);
            u128::from(hasher.finish())
        };
        hash(1) << 64 | hash(2)
    }
}

/// Visit every state, until a property is broken. Returns the broken ones and the number of states.
fn explore(scope: Scope) -> (BTreeSet<Broken>, usize) {
    let mut search = Search { scope, broken: BTreeSet::new() };
    let first = World::new(&scope);
    let mut seen = BTreeSet::from([first.fingerprint()]);
    let mut open = VecDeque::from([first]);
    let mut count = 0;
    while let Some(world) = open.pop_front() {
        count += 1;
        for next in search.successors(&world) {
            if seen.insert(next.fingerprint()) {
                open.push_back(next);
            }
        }
        if !search.broken.is_empty() {
            break;
        }
    }
    (search.broken, count)
}

#[track_caller]
fn assert_holds(scope: Scope) -> usize {
    let (broken, states) = explore(scope);
    assert!(broken.is_empty(), "{scope:?}: {broken:?} after {states} states");
    eprintln!("{scope:?}: {states} states");
    states
}

#[track_caller]
fn assert_caught(scope: Scope) {
    let (broken, states) = explore(scope);
    assert!(!broken.is_empty(), "{scope:?}: not caught in {states} states");
    eprintln!("{scope:?}: {broken:?} after {states} states");
}

/// Goal: the protocol holds for two processes with immediate collection of slots.
#[test]
fn sweep_protocol_holds_without_copies() {
    assert!(assert_holds(Scope::SMALL) > 10_000);
    let longer = Scope { last_seq: 4, ..Scope::SMALL };
    let busier = Scope { commits: 2, ..longer };
    let more = Scope { processes: 3, ..Scope::SMALL };
    let longest = Scope { commits: 2, last_seq: 5, ..Scope::SMALL };
    for scope in sweep(vec![], vec![longer, busier], vec![longer, busier, more, longest]) {
        assert_holds(scope);
    }
}

/// Goal: the protocol holds while folders come from another store: two side-cars of one folder, two
/// folders of which one diverged, and processes that open epochs meanwhile.
#[test]
fn sweep_protocol_holds_while_a_folder_moves() {
    let moved = Scope::MOVED;
    assert!(assert_holds(moved) > 10_000);
    let taken_over = Scope { folders: &[FOLDER], ..moved };
    assert!(assert_holds(taken_over) > 10_000);
    let twice = Scope { folders: &[FOLDER, FOLDER], ..moved };
    let copied = Scope { folders: &[FOLDER], processes: 1, tries: 1, ..Scope::COPIED };
    let resent = [Scope { tries: 2, ..taken_over }, Scope { tries: 2, ..moved }];
    let more =
        [Scope { last_seq: 4, commits: 2, ..taken_over }, Scope { processes: 3, ..moved }, copied];
    let all = [[twice].as_slice(), &resent, &more].concat();
    for scope in sweep(vec![], vec![twice], all) {
        assert_holds(scope);
    }
}

/// Goal: the protocol holds if a machine is copied in any state, as long as no slot is collected before
/// the age from which on a reader doubts a slot.
#[test]
fn sweep_protocol_holds_with_a_copied_machine() {
    let alone = Scope { processes: 1, last_seq: 4, ..Scope::COPIED };
    assert!(assert_holds(alone) > 10_000);
    assert!(assert_holds(Scope::READ) > 10_000);
    let kept = Scope { segments: 0, ticks: 0, tries: 1, ..Scope::COPIED };
    let resent = Scope { tries: 2, ..kept };
    let longer = Scope { last_seq: 5, segments: 2, ticks: 3, ..alone };
    let longest = Scope { last_seq: 4, ..Scope::COPIED };
    for scope in sweep(vec![], vec![kept], vec![kept, resent, longer, Scope::COPIED, longest]) {
        assert_holds(scope);
    }
}

/// Goal: the model finds each planted bug, in a scope that is sound without it.
#[test]
fn model_finds_each_planted_bug() {
    let small = Scope::SMALL;
    for (bug, scope) in [
        (Bug::OpenedUnchecked, small),
        (Bug::OpeningSlotBelieved, small),
        (Bug::OpeningSlotCollected, small),
        (Bug::NodeCompared, Scope { is_copied: true, segments: 0, ..small }),
        (Bug::AcknowledgedEarly, small),
        (Bug::SegmentEarly, small),
        (Bug::CollectedEarly, small),
        (Bug::BytesChanged, small),
        (Bug::LateCommitUnchecked, Scope { processes: 1, ..Scope::COPIED }),
        (Bug::LateSlotBelieved, Scope::READ),
        (Bug::CopiedOpeningUnchecked, Scope::MOVED),
        (Bug::OpeningSlotCollected, Scope::MOVED),
    ] {
        assert_caught(scope.with(bug));
    }
}

/// Goal: the age at which slots are collected must not be below the age at which they are in doubt:
/// otherwise the model finds a lost record.
#[test]
fn model_finds_slots_that_are_collected_too_young() {
    assert_caught(Scope { processes: 1, age: 0, ..Scope::COPIED });
}
