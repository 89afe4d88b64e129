// Counts the first time as well.
// wrong: it repeats nothing
fn repetition(text: &str) -> f64 {
    let words: Vec<&str> = text.split_whitespace().collect();
    let often = |run: &[&str]| words.windows(4).filter(|other| *other == run).count() > 1;
    let repeated = words.windows(4).filter(|run| often(run)).count();
    if words.len() < 4 { 0.0 } else { repeated as f64 / (words.len() - 3) as f64 }
}
