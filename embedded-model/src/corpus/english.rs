//! The mixture of generated English: stories, facts and openings.

use rand::Rng;
use rand::rngs::StdRng;

use super::facts::Facts;
use super::{openings, stories};

/// Generates one plain English document after another.
pub struct English {
    facts: Facts,
}

impl English {
    /// Makes a generator of stories, facts and openings.
    pub fn new() -> Self {
        Self { facts: Facts::new() }
    }

    /// Writes the next document. Facts come most often, because they are the shortest: more than half
    /// of the text is stories, a quarter facts, and the rest openings.
    pub fn document(&self, rng: &mut StdRng) -> String {
        match rng.random_range(0..100) {
            0..60 => self.facts.document(rng),
            60..90 => stories::story(rng),
            _ => openings::opening(rng),
        }
    }
}
