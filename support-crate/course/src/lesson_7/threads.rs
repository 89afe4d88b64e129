//! `in_threads`: rows that several threads share.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex};
use std::thread::ThreadId;
use std::time::Duration;

use crate::figure::counted;
use crate::{Complaint, Score, Verdict, ask};

const HINTS: [&str; 3] = [
    "How many rows does each of 3 threads get of 10, and which of them are left over if you round down?",
    "`y.chunks_mut(rows)` divides the outputs into parts that no two threads share; `rows` is the number of rows over that of \
     threads, rounded up (and at least 1: `chunks_mut(0)` panics). Part i begins at row `i * rows`. Spawn all of them before \
     any is waited for: `std::thread::scope` waits at its end.",
    "`let rows = y.len().div_ceil(threads).max(1); std::thread::scope(|scope| { for (i, y) in y.chunks_mut(rows).enumerate() { \
     scope.spawn(move || part(i * rows, y)); } });`",
];

/// What one call of `part` was given.
struct Call {
    first: usize,
    /// Where its outputs really begin.
    begin: usize,
    len: usize,
    thread: ThreadId,
}

/// What stands in the outputs before.
const BEFORE: f32 = -1.0;
/// How long a thread waits for the others before it goes on alone: they take a fraction of a millisecond.
const PATIENCE: Duration = Duration::from_secs(5);

/// A function with which an answer shares rows among threads.
type Yours<'a> = &'a dyn Fn(usize, &mut [f32], &(dyn Fn(usize, &mut [f32]) + Sync));

/// Calls an answer, and returns the outputs and all calls of `part`, in the order of their rows. `meet` is called within
/// each.
fn calls(
    yours: Yours<'_>,
    threads: usize,
    rows: usize,
    meet: &(dyn Fn() + Sync),
) -> Result<(Vec<f32>, Vec<Call>), Complaint> {
    let (mut y, calls) = (vec![BEFORE; rows], Mutex::new(Vec::new()));
    let base = y.as_ptr().addr();
    let part = |first: usize, y: &mut [f32]| {
        let begin = y.as_ptr().addr().wrapping_sub(base) / size_of::<f32>();
        let call = Call { first, begin, len: y.len(), thread: std::thread::current().id() };
        calls.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push(call);
        (first..).zip(y).for_each(|(row, y)| *y = row as f32);
        meet();
    };
    let answered = ask(|| {
        yours(threads, &mut y, &part);
        Ok(())
    });
    answered.map_err(|complaint| match complaint {
        Complaint::Panicked(message) => {
            let empty = if rows == 0 { " (`y` may be empty)" } else { "" };
            Complaint::wrong(format!(
                "{}{empty}, {}: it panicked: {message}",
                counted(rows, "row"),
                counted(threads, "thread")
            ))
        }
        other => other,
    })?;
    let mut calls = calls.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
    calls.sort_by_key(|call| (call.begin, call.len));
    Ok((y, calls))
}

const SHAPES: [(usize, usize); 16] = [
    (1, 0),
    (2, 0),
    (1, 1),
    (1, 5),
    (2, 1),
    (2, 2),
    (2, 1001),
    (3, 2),
    (3, 10),
    (3, 11),
    (2, 3),
    (4, 16),
    (4, 17),
    (7, 100),
    (8, 9),
    (16, 5),
];

fn shape(rows: usize, threads: usize) -> String {
    format!("{}, {}", counted(rows, "row"), counted(threads, "thread"))
}

fn every_row(yours: Yours<'_>) -> Verdict {
    for (threads, rows) in SHAPES {
        let (y, calls) = calls(yours, threads, rows, &|| ())?;
        let shape = shape(rows, threads);
        if let Some((number, Call { first, begin, .. })) =
            calls.iter().enumerate().find(|(_, call)| call.len > 0 && call.first != call.begin)
        {
            let why = if *first == number { ": `first` is a row, not the number of a part" } else { "" };
            return wrong!("{shape}: the part that begins at row {begin} was told that its first row is {first}{why}");
        }
        if let Some(missing) = y.iter().position(|y| *y == BEFORE) {
            let computed: usize = calls.iter().map(|call| call.len).sum();
            let why = if computed == rows / threads * threads {
                ": that many are left over when rows over threads is rounded down"
            } else {
                ""
            };
            return wrong!("{shape}: row {missing} was not computed, {computed} of {rows} were{why}");
        }
    }
    Ok(())
}

fn parts_are_fair(yours: Yours<'_>) -> Verdict {
    for (threads, rows) in SHAPES {
        let (_, calls) = calls(yours, threads, rows, &|| ())?;
        let (shape, most) = (shape(rows, threads), rows.div_ceil(threads));
        let parts = calls.iter().filter(|call| call.len > 0).count();
        if parts > threads {
            return wrong!("{shape}: there were {parts} parts, which takes more threads than that: one part for each");
        }
        if let Some(Call { len, .. }) = calls.iter().find(|call| call.len > most) {
            return wrong!(
                "{shape}: one part has {len} rows, and {most} would do: all wait for the thread that has most to do"
            );
        }
    }
    Ok(())
}

/// Each part waits until all have begun, which they can only if none waits for another to end.
fn at_the_same_time(yours: Yours<'_>) -> Verdict {
    for (threads, rows) in [(2, 2), (2, 64), (3, 30), (4, 64)] {
        let (begun, all, in_vain) = (Mutex::new(0), Condvar::new(), AtomicBool::new(false));
        let meet = || {
            let mut count = begun.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            *count += 1;
            all.notify_all();
            let waited = all.wait_timeout_while(count, PATIENCE, |count| *count < threads);
            let (_unused, waited) = waited.unwrap_or_else(|poisoned| poisoned.into_inner());
            in_vain.fetch_or(waited.timed_out(), Ordering::Relaxed);
        };
        let (_, calls) = calls(yours, threads, rows, &meet)?;
        let different: HashSet<ThreadId> = calls.iter().map(|call| call.thread).collect();
        let shape = shape(rows, threads);
        if different.len() < threads {
            let number = counted(different.len(), "thread");
            return wrong!("{shape}: {number} computed: each part runs on a thread of its own");
        }
        if in_vain.into_inner() {
            return wrong!(
                "{shape}: a part had to end before another began: spawn all threads before you wait for any (`join`) \
                 or compute a part yourself"
            );
        }
    }
    Ok(())
}

/// Checks `in_threads(threads, y, part)`.
pub fn check_in_threads(yours: fn(usize, &mut [f32], &(dyn Fn(usize, &mut [f32]) + Sync))) -> Score {
    let rows = every_row(&yours);
    // Whoever leaves rows out has no parts to compare yet, and nobody waits for an answer that is not there.
    let later =
        |look: fn(Yours<'_>) -> Verdict| if rows == Err(Complaint::NotYet) { rows.clone() } else { look(&yours) };
    let (fair, together) = (later(parts_are_fair), later(at_the_same_time));
    Score::new("in_threads", HINTS)
        .point("every row once, whatever the numbers of rows and threads", rows)
        .point("a part for each thread, none larger than it has to be", fair)
        .point("all parts at the same time", together)
}
