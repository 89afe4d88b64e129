// Divides by 0.
// wrong: the repetition of
fn repetition(text: &str) -> f64 {
    let words: Vec<&str> = text.split_whitespace().collect();
    let mut seen = std::collections::HashSet::new();
    let repeated = words.windows(4).filter(|run| !seen.insert(run.to_vec())).count();
    repeated as f64 / words.windows(4).count() as f64
}
