// Does not divide.
// wrong: divide by the number of runs
fn repetition(text: &str) -> f64 {
    let words: Vec<&str> = text.split_whitespace().collect();
    let mut seen = std::collections::HashSet::new();
    words.windows(4).filter(|run| !seen.insert(run.to_vec())).count() as f64
}
