//! What an answer timed: the stretch of work between its readings of the clock.

use super::Event;
use crate::course::Complaint;

/// What happened on a machine, cut at the first and the last reading of its clock.
#[derive(Debug, Clone, Copy)]
pub struct Timed<'a> {
    /// Before the first reading.
    pub before: &'a [Event],
    /// Between the first reading and the last.
    pub inside: &'a [Event],
    /// Seconds from the first reading to the last.
    pub passed: f64,
}

impl Event {
    /// Whether the model was run.
    pub fn is_forward(&self) -> bool {
        matches!(self, Self::Forward { .. })
    }
}

impl<'a> Timed<'a> {
    /// Cuts the events of one call.
    ///
    /// # Errors
    /// The clock was not read, or only once.
    pub fn of(events: &'a [Event]) -> Result<Self, Complaint> {
        let reading = |(index, event): (usize, &Event)| match *event {
            Event::Clock { now } => Some((index, now)),
            _ => None,
        };
        let mut readings = events.iter().enumerate().filter_map(reading);
        let Some((first, start)) = readings.next() else {
            return Err(Complaint::wrong(
                "the clock that was passed in was not read: use `clock.now()`, it gives seconds (a clock of its own \
                 would make the function impossible to try out)",
            ));
        };
        let Some((last, end)) = readings.next_back() else {
            return Err(Complaint::wrong("`clock.now()` was called only once"));
        };
        Ok(Self { before: &events[..first], inside: &events[first..last], passed: end - start })
    }

    /// # Errors
    /// Text was turned into ids, or ids into text, while the clock ran.
    pub fn leaves_text_outside(&self) -> Result<(), Complaint> {
        if self.inside.contains(&Event::Encode) {
            return Err(Complaint::wrong(
                "the tokenizer ran inside the timed part: turn the prompt into ids before the clock starts (`generate` \
                 tokenizes, `generate_tokens` does not)",
            ));
        }
        if self.inside.contains(&Event::Decode) {
            return Err(Complaint::wrong(
                "ids were turned into text inside the timed part: that is not what the model's speed is about; read the \
                 clock before you decode",
            ));
        }
        Ok(())
    }

    /// # Errors
    /// The device may still have been busy with something else when the clock started.
    pub fn waits_before(&self) -> Result<(), Complaint> {
        let last_work = self.before.iter().rposition(Event::is_forward).unwrap_or(0);
        Complaint::unless(self.before[last_work..].contains(&Event::Synchronize), || {
            "a GPU may still be busy with what came before when your clock starts, and you would pay for it: call \
                 `loaded.model.synchronize()?` right before the first reading, not after it"
        })
    }

    /// # Errors
    /// Nothing was generated, or the clock stopped before the device did.
    pub fn waits_after(&self) -> Result<(), Complaint> {
        let Some(last_work) = self.inside.iter().rposition(Event::is_forward) else {
            return Err(Complaint::wrong("nothing was generated between the two readings of the clock"));
        };
        Complaint::unless(self.inside[last_work..].contains(&Event::Synchronize), || {
            "your clock stopped while the device was still computing: call `loaded.model.synchronize()?` right \
                 before the second reading"
        })
    }
}
