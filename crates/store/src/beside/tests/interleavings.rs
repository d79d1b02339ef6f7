//! All interleavings of a reader's steps, the engine's, and those of a thread that looks into the
//! cache.
//!
//! Each step is one call of what threads share, and each such call holds one lock. So these are all
//! orders in which threads can do them.

use super::*;

/// Block that changes.
const BLOCK: u64 = FIRST;
/// Sectors of its first and its second bytes.
const PLACES: [usize; 2] = [0, 1];

/// Step of the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// The change to this version is noted.
    Note,
    /// The cache gets the version.
    Cache(u8),
    /// The change to this version is acknowledged.
    Acknowledge(u8),
    /// The second version has its place in the map, and the leaf is published.
    Publish,
    /// The place of the first version is freed, and another block is written there.
    Reuse,
}

/// Life of a block: three versions, of which the first two lie on a device.
const LIFE: [Step; 8] = [
    Step::Note,
    Step::Cache(2),
    Step::Acknowledge(2),
    Step::Publish,
    Step::Reuse,
    Step::Note,
    Step::Cache(3),
    Step::Acknowledge(3),
];

/// Thread that takes the next step.
#[derive(Clone, Copy, Debug)]
enum Turn {
    Engine,
    Reader,
    Looker,
}

/// Reader between two steps.
enum Stage {
    Begins,
    Wants(Tickets),
    Located(Located),
    Has(Located, Option<Brought>),
    Filled(Option<Brought>),
    Over,
}

/// Bytes that a reader brought.
enum Brought {
    /// Bytes of a reader of any number of blocks.
    Blocks(Verified),
    /// Bytes of a reader that knows of one block alone.
    One(Pages),
}

struct World {
    published: Published,
    cache: Cache,
    nodes: Vec<Arc<Node<FAN_OUT>>>,
    /// Versions that lie on the device.
    device: [u8; 2],
    /// Newest version, which the engine would read.
    newest: u8,
    acknowledged: u8,
    /// Version that was acknowledged when the reader began.
    seen: u8,
    stage: Stage,
    /// Version that the reader answered.
    answered: Option<u8>,
    /// Whether changes pass the cache by.
    passes: bool,
    /// Whether the reader knows of one block alone.
    is_of_one: bool,
    is_wrong: bool,
}

fn version(number: u8) -> Pages {
    Pages::from_bytes(&[number; SIZE])
}

impl World {
    fn new(passes: bool, is_of_one: bool) -> Self {
        let mut world = Self {
            published: Published::default(),
            cache: Cache::new(4 << 20, 1),
            nodes: Vec::new(),
            device: [1, 2],
            newest: 1,
            acknowledged: 1,
            seen: 0,
            stage: Stage::Begins,
            answered: None,
            passes,
            is_of_one,
            is_wrong: false,
        };
        world.publish(0);
        world
    }

    fn publish(&mut self, place: usize) {
        let id = NodeId {
            volume: VOLUME,
            level: 0,
            index: 0,
        };
        let mut node = Node::new(id, Epoch(1));
        let bytes = version(self.device[place]);
        let pointer = Pointer {
            address: Address::new(0, 100 + place as u64),
            checksum: checksum::of(Algorithm::Xxh3, &bytes),
            ..pointer(BLOCK)
        };
        node.set(BLOCK as usize, pointer);
        let node = Arc::new(node);
        let leaf = Leaf::new(&node, Arc::default(), Changed::default());
        self.published.publish(VOLUME, 0, leaf);
        self.nodes.push(node);
    }

    fn engine(&mut self, step: Step) {
        match step {
            Step::Note => self.published.note_change(VOLUME, BLOCK..BLOCK + 1),
            Step::Cache(number) => {
                self.newest = number;
                match self.passes {
                    true => self.cache.invalidate(key(BLOCK)),
                    false => self.cache.insert(key(BLOCK), version(number), drop),
                }
            }
            Step::Acknowledge(number) => self.acknowledged = number,
            Step::Publish => self.publish(PLACES[1]),
            Step::Reuse => self.device[PLACES[0]] = 99,
        }
    }

    fn reader(&mut self) {
        let stage = std::mem::replace(&mut self.stage, Stage::Over);
        self.stage = match stage {
            Stage::Begins => {
                self.seen = self.acknowledged;
                match self.cache.get_or_ticket(key(BLOCK)) {
                    Ok(data) => self.answer(data.to_vec()[0]),
                    Err(first) => {
                        let blocks = BLOCK..BLOCK + 1;
                        Stage::Wants(Tickets::take(&self.cache, VOLUME, blocks, Some(first)))
                    }
                }
            }
            Stage::Wants(tickets) => match tickets.locate(&self.published) {
                Some(located) => Stage::Located(located),
                None => self.answer(self.newest),
            },
            Stage::Located(located) => {
                let place = (located.pointers()[0].address.sector() - 100) as usize;
                let bytes = version(self.device[place]);
                let brought = match self.is_of_one {
                    true => located.verify_one(bytes, SIZE).map(Brought::One),
                    false => located.verify(0..1, &bytes, SIZE).map(Brought::Blocks),
                };
                Stage::Has(located, brought)
            }
            Stage::Has(located, brought) => {
                match &brought {
                    Some(Brought::Blocks(all)) => located.fill(&self.cache, all, SIZE),
                    Some(Brought::One(data)) => located.fill_one(&self.cache, data),
                    None => {}
                }
                Stage::Filled(brought)
            }
            Stage::Filled(Some(brought)) => {
                let data = match brought {
                    Brought::Blocks(all) => all.part(0..1, SIZE),
                    Brought::One(data) => data,
                };
                self.answer(data.to_vec()[0])
            }
            // The engine reads again.
            Stage::Filled(None) => self.answer(self.newest),
            Stage::Over => Stage::Over,
        };
    }

    fn answer(&mut self, number: u8) -> Stage {
        self.answered = Some(number);
        self.is_wrong |= number < self.seen || number > self.newest;
        Stage::Over
    }

    /// Looks into the cache, which may have only what is not older than the acknowledged version.
    fn look(&mut self) {
        let cached = self.cache.get(key(BLOCK)).map(|data| data.to_vec()[0]);
        let is_right = |number: u8| (self.acknowledged..=self.newest).contains(&number);
        self.is_wrong |= cached.is_some_and(|number| !is_right(number));
    }
}

/// Runs all orders of the steps. Returns the numbers of the orders, of those that went wrong, and
/// of those in which the reader answered with each version.
fn run_all(life: &[Step], passes: bool, is_of_one: bool) -> (usize, usize, [usize; 4]) {
    let (mut all, mut wrong, mut answers) = (0, 0, [0; 4]);
    each_order(
        &mut [life.len(), 5, 1],
        &mut Vec::new(),
        &mut |order: &[Turn]| {
            let mut world = World::new(passes, is_of_one);
            let mut steps = life.iter();
            for turn in order {
                match turn {
                    Turn::Engine => steps
                        .next()
                        .into_iter()
                        .for_each(|step| world.engine(*step)),
                    Turn::Reader => world.reader(),
                    Turn::Looker => world.look(),
                }
            }
            world.look();
            all += 1;
            wrong += usize::from(world.is_wrong);
            answers[usize::from(world.answered.expect("it answers"))] += 1;
        },
    );
    (all, wrong, answers)
}

fn each_order(left: &mut [usize; 3], order: &mut Vec<Turn>, run: &mut impl FnMut(&[Turn])) {
    if left.iter().all(|left| *left == 0) {
        return run(order);
    }
    for (at, turn) in [Turn::Engine, Turn::Reader, Turn::Looker]
        .into_iter()
        .enumerate()
    {
        if left[at] > 0 {
            left[at] -= 1;
            order.push(turn);
            each_order(left, order, run);
            order.pop();
            left[at] += 1;
        }
    }
}

#[test]
fn in_no_order_does_anyone_see_what_was_replaced_before() {
    for (passes, is_of_one) in [(false, false), (false, true), (true, false), (true, true)] {
        let (all, wrong, answers) = run_all(&LIFE, passes, is_of_one);
        assert_eq!((all, wrong), (18_018, 0), "{passes} {is_of_one}");
        assert!(
            answers[1..].iter().all(|count| *count > 0),
            "each version is read in some order: {answers:?}"
        );
    }
}

/// The orders of the engine's steps are needed: others are found to be wrong.
#[test]
fn a_change_that_is_noted_late_is_seen_in_some_order() {
    let mut after_the_cache = LIFE;
    after_the_cache.swap(0, 1);
    let mut after_the_answer = LIFE;
    after_the_answer[..3].rotate_left(1);
    // Only blocks that come into the cache show these faults.
    for is_of_one in [false, true] {
        let (_, wrong, _) = run_all(&after_the_cache, true, is_of_one);
        assert!(wrong > 0, "noted after the cache has it");
        let (_, wrong, _) = run_all(&after_the_answer, true, is_of_one);
        assert!(wrong > 0, "noted after the acknowledgement");
    }
}
