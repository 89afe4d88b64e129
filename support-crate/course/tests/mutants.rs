//! The program that `cargo lab mutants` builds and runs: it gives mutants of the reference answers to their checks.
//! That command writes the mutants (environment/src/mutants); without it there are none.

#![allow(unexpected_cfgs, reason = "only `cargo lab mutants` sets `mutants`")]

#[cfg(mutants)]
#[allow(warnings, clippy::all, reason = "mutants are what learners might write")]
mod mutants {
    include!(env!("QUANTLAB_MUTANTS"));
}

#[cfg(not(mutants))]
mod mutants {
    pub fn check(_exercise: usize, _mutant: usize) -> Option<quantlab_course::Score> {
        None
    }
}

/// Arguments: the number of an exercise, of its first mutant, and of the first one no longer wanted. Each mutant
/// gets a line.
fn main() {
    let numbers: Vec<usize> = std::env::args().skip(1).filter_map(|number| number.parse().ok()).collect();
    let [exercise, first, end] = numbers[..] else { return println!("see `cargo lab mutants`") };
    std::panic::set_hook(Box::new(|_| ()));
    for mutant in first..end {
        // Whatever a mutant printed before, the line is one of its own.
        match std::panic::catch_unwind(|| mutants::check(exercise, mutant)) {
            Ok(Some(score)) => println!("\nmutant {mutant} got {} of {}", score.points(), score.max_points()),
            Ok(None) => println!("\nmutant {mutant} is missing"),
            Err(_) => println!("\nmutant {mutant} panicked"),
        }
    }
}
