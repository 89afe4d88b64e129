//! What an answer timed: the stretch of work between its readings of the clock.

use super::Event;
use crate::{Complaint, Verdict};

/// What happened on a machine, cut at two readings of its clock.
#[derive(Debug, Clone, Copy)]
pub struct Timed<'a> {
    /// Before the earlier reading.
    pub before: &'a [Event],
    /// Between the two.
    pub inside: &'a [Event],
    /// Seconds from one reading to the other.
    pub passed: f64,
}

/// Two readings of the clock, by their places among the events, and the time between them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Stretch {
    /// The place of the earlier reading.
    pub first: usize,
    /// The place of the later one.
    pub last: usize,
    /// What lies between them, in seconds.
    pub seconds: f64,
}

/// How far a number may be from what it stands for: rounding to four digits stays within.
const ROUNDING: f64 = 5e-4;

/// The readings of the clock: their places, and the time that they showed.
fn readings(events: &[Event]) -> Vec<(usize, f64)> {
    let reading = |(place, event): (usize, &Event)| match *event {
        Event::Clock { now } => Some((place, now)),
        _ => None,
    };
    events.iter().enumerate().filter_map(reading).collect()
}

impl Stretch {
    /// The two readings whose difference is the time that an answer says something took; of readings at the same time,
    /// those that are closest to the work.
    pub fn of(events: &[Event], seconds: f64) -> Option<Self> {
        let readings = readings(events);
        let pairs = readings.iter().enumerate().flat_map(|(index, &(first, start))| {
            readings[index + 1..].iter().map(move |&(last, end)| Self { first, last, seconds: end - start })
        });
        let distance = |stretch: &Self| (stretch.seconds - seconds).abs();
        pairs.filter(|stretch| distance(stretch) <= ROUNDING * stretch.seconds).min_by_key(|stretch| {
            // Sums of the same terms differ in their last bits.
            ((distance(stretch) * 1e9) as u64, stretch.last - stretch.first)
        })
    }
}

impl Event {
    /// Whether the model was run.
    pub fn is_forward(&self) -> bool {
        matches!(self, Self::Forward { .. })
    }

    /// How many of these are forward passes.
    pub fn forwards(events: &[Self]) -> usize {
        events.iter().filter(|event| event.is_forward()).count()
    }
}

impl<'a> Timed<'a> {
    /// Cuts the events of one call at the two readings whose difference is the time that the answer says its work took:
    /// an answer may read the clock more often than it must. Without such readings, it is cut at the first and the last.
    ///
    /// # Errors
    /// The clock was not read, or only once.
    pub fn lasting(events: &'a [Event], seconds: f64) -> Result<Self, Complaint> {
        let whole = match *readings(events).as_slice() {
            [] => {
                return wrong!(
                    "the clock that was passed in was not read: use `clock.now()`, which gives seconds (nobody could \
                     test a function with a clock of its own)",
                );
            }
            [_] => return wrong!("`clock.now()` was called only once"),
            [(first, start), .., (last, end)] => Stretch { first, last, seconds: end - start },
        };
        let Stretch { first, last, seconds: passed } = Stretch::of(events, seconds).unwrap_or(whole);
        Ok(Self { before: &events[..first], inside: &events[first..last], passed })
    }

    /// # Errors
    /// Text was turned into ids, or ids into text, while the clock ran.
    pub fn leaves_text_outside(&self) -> Verdict {
        if self.inside.contains(&Event::Encode) {
            return wrong!(
                "the tokenizer ran inside the timed part: turn the prompt into ids before the clock starts (`generate` \
                 calls the tokenizer, `loaded.generate_tokens` does not)",
            );
        }
        if self.inside.contains(&Event::Decode) {
            return wrong!(
                "ids were turned into text inside the timed part: that is not the model's work; read the clock before you \
                 decode",
            );
        }
        Ok(())
    }

    /// # Errors
    /// The device may still have been busy with something else when the clock started.
    pub fn waits_before(&self) -> Verdict {
        let last_work = self.before.iter().rposition(Event::is_forward).unwrap_or(0);
        Complaint::unless(self.before[last_work..].contains(&Event::Synchronize), || {
            "when your clock starts, a GPU may still be busy with earlier work, and you would time that too: call \
                 `loaded.model.synchronize()?` right before the first reading, not after it"
        })
    }

    /// # Errors
    /// Nothing was generated, or the clock stopped before the device did.
    pub fn waits_after(&self) -> Verdict {
        let Some(last_work) = self.inside.iter().rposition(Event::is_forward) else {
            return wrong!("nothing was generated between the two readings of the clock");
        };
        Complaint::unless(self.inside[last_work..].contains(&Event::Synchronize), || {
            "your clock stopped while the device was still computing: call `loaded.model.synchronize()?` right \
                 before the second reading"
        })
    }
}
